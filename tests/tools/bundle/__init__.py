"""What is made for a release that is carried to a site without network."""
