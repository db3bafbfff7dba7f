// Package admin is the HTTP page of a node for machines: health, readiness, metrics, profiles.
//
//	/healthz        200 "ok", or 503 and the reason: something is broken that will not mend by itself
//	/readyz         200 "ok", or 503 and the reason: do not send traffic now
//	                after "ok" a second line tells what is not well but mends by itself
//	/metrics        Prometheus text
//	/debug/pprof/   profiles of the Go runtime
package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"time"
)

// Options sets up a Server; all fields are needed. The functions are called by any goroutine, also at once.
type Options struct {
	Addr    string // host:port to listen on; port 0 is chosen by the kernel
	Health  func() error
	Ready   func() error
	Notice  func() error    // what is not well but mends by itself, as a full disk
	Metrics func(io.Writer) // writes Prometheus text
	Log     *slog.Logger
}

// Server answers HTTP requests.
type Server struct {
	http     *http.Server
	listener net.Listener
	done     chan struct{}
}

// Time limits of a request. A CPU profile takes as long as it is asked for, so that answers have none.
const (
	readWait = 10 * time.Second
	idleWait = 60 * time.Second
)

// Start listens and serves until Stop.
func Start(o Options) (*Server, error) {
	l, err := net.Listen("tcp", o.Addr)
	if err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	s := &Server{
		http: &http.Server{
			Handler: mux(o), ReadTimeout: readWait, IdleTimeout: idleWait,
			ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
		},
		listener: l, done: make(chan struct{}),
	}
	go func() {
		defer close(s.done)
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			o.Log.Error("admin: stopped serving", "error", err)
		}
	}()
	return s, nil
}

// Addr is where the server listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Stop lets running requests finish until ctx ends, then cuts them.
func (s *Server) Stop(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	<-s.done
	return err
}

func mux(o Options) http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("GET /healthz", verdict(o.Health, o.Notice))
	m.HandleFunc("GET /readyz", verdict(o.Ready, o.Notice))
	m.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		o.Metrics(w)
	})
	m.HandleFunc("/debug/pprof/", pprof.Index)
	m.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	m.HandleFunc("/debug/pprof/profile", pprof.Profile)
	m.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	m.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return m
}

// verdict answers 200, with what is to be noticed, or 503 with the reason.
func verdict(judge, notice func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if err := judge(); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintln(w, err)
			return
		}
		fmt.Fprintln(w, "ok")
		if err := notice(); err != nil {
			fmt.Fprintln(w, err)
		}
	}
}
