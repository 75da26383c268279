"""What would happen next, and what if: the controller's own decision core, asked again and again. Pure."""
