package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// full is what the pages of this test are to tell beside "ok".
var full atomic.Pointer[error]

// page serves with the two verdicts and returns a function that fetches.
func page(t *testing.T, health, ready func() error) func(path string) (status int, contentType, body string) {
	t.Helper()
	notice := func() error {
		if notice := full.Load(); notice != nil {
			return *notice
		}
		return nil
	}
	s, err := Start(Options{
		Addr: "127.0.0.1:0", Health: health, Ready: ready, Notice: notice,
		Metrics: func(w io.Writer) { fmt.Fprintln(w, "ringmq_test 1") }, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{}, Timeout: 20 * time.Second}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return func(path string) (int, string, string) {
		t.Helper()
		r, err := client.Get("http://" + s.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode, r.Header.Get("Content-Type"), string(body)
	}
}

func TestVerdicts(t *testing.T) {
	var sick atomic.Bool
	get := page(t, func() error {
		if sick.Load() {
			return errors.New("store: flush failed")
		}
		return nil
	}, func() error { return errors.New("starting") })
	expect := func(path string, status int, body string) {
		t.Helper()
		if gotStatus, _, gotBody := get(path); gotStatus != status || gotBody != body {
			t.Errorf("%s: %d %q, want %d %q", path, gotStatus, gotBody, status, body)
		}
	}
	expect("/healthz", 200, "ok\n")
	expect("/readyz", 503, "starting\n")
	notice := errors.New("the disk is full")
	full.Store(&notice)
	expect("/healthz", 200, "ok\nthe disk is full\n")
	full.Store(nil)
	sick.Store(true)
	expect("/healthz", 503, "store: flush failed\n")
	expect("/nothing", 404, "404 page not found\n")
}

func TestPages(t *testing.T) {
	fine := func() error { return nil }
	get := page(t, fine, fine)
	for path, want := range map[string]string{
		"/metrics":                       "ringmq_test 1",
		"/debug/pprof/":                  "goroutine",
		"/debug/pprof/goroutine?debug=1": "goroutine profile",
		"/debug/pprof/cmdline":           "admin",
	} {
		if status, _, body := get(path); status != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: %d, want a text with %q", path, status, want)
		}
	}
	if _, contentType, _ := get("/metrics"); !strings.HasPrefix(contentType, "text/plain; version=0.0.4") {
		t.Errorf("metrics are %q", contentType)
	}
}

func TestAddressTaken(t *testing.T) {
	o := Options{Addr: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)}
	s, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop(t.Context())
	o.Addr = s.Addr().String()
	if _, err := Start(o); err == nil || !strings.Contains(err.Error(), o.Addr) {
		t.Errorf("a second server: %v, want an error that names %s", err, o.Addr)
	}
}
