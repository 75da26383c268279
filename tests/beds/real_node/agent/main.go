// A daemon whose bad manners are set by its environment, and the pause of every pod's sandbox.
package main

import (
	"context"
	"encoding/json"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

func main() {
	ending := make(chan os.Signal, 1)
	signal.Notify(ending, syscall.SIGTERM, syscall.SIGINT)
	if len(os.Args) > 1 && os.Args[1] == "pause" {
		<-ending
		return
	}
	var ready atomic.Bool
	server := &http.Server{Addr: ":" + value("PORT", "8080"), Handler: pages(&ready)}
	time.Sleep(seconds("START_SECONDS")) // slow to start: it does not even listen
	go func() {
		if err := server.ListenAndServe(); err != http.ErrServerClosed {
			log.Fatal(err)
		}
	}()
	log.Printf("version %s", os.Getenv("VERSION"))
	time.AfterFunc(seconds("READY_SECONDS"), func() { ready.Store(os.Getenv("NEVER_READY") == "") })
	if code := os.Getenv("CRASH"); code != "" {
		time.AfterFunc(seconds("CRASH_SECONDS"), func() { os.Exit(number(code)) })
	}
	if os.Getenv("IGNORES_SIGTERM") != "" {
		select {}
	}
	<-ending
	time.Sleep(seconds("STOP_SECONDS")) // slow to end: it serves until then
	server.Shutdown(context.Background())
}

// pages shows version and environment; /ready is for probes, and what is sent to it decides what it says.
func pages(ready *atomic.Bool) http.Handler {
	pages := http.NewServeMux()
	pages.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(map[string]any{"version": os.Getenv("VERSION"), "environment": os.Environ()})
	})
	pages.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		if !ready.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	pages.HandleFunc("PUT /ready/{whether}", func(_ http.ResponseWriter, r *http.Request) {
		ready.Store(r.PathValue("whether") == "yes")
	})
	pages.HandleFunc("PUT /exit/{code}", func(_ http.ResponseWriter, r *http.Request) {
		os.Exit(number(r.PathValue("code")))
	})
	return pages
}

func value(name, otherwise string) string {
	if found := os.Getenv(name); found != "" {
		return found
	}
	return otherwise
}

func seconds(name string) time.Duration {
	return time.Duration(number(value(name, "0")) * int(time.Second))
}

func number(text string) int {
	found, err := strconv.Atoi(text)
	if err != nil {
		log.Fatalf("not a number: %q", text)
	}
	return found
}
