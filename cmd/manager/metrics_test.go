package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// Profiles are served where they are asked for, behind the same question for a token as the metrics, and never with
// the command line.
func TestProfilesAreAskedFor(t *testing.T) {
	if handlers := (&settings{}).metrics().ExtraHandlers; len(handlers) != 0 {
		t.Errorf("nobody asked for profiles, and these are served: %v", handlers)
	}
	options := (&settings{profiling: true}).metrics()
	if options.FilterProvider == nil {
		t.Error("nobody is asked for a token")
	}
	mux := http.NewServeMux()
	for path, handler := range options.ExtraHandlers {
		mux.Handle(path, handler)
	}
	for path, want := range map[string]int{
		"/debug/pprof/": http.StatusOK, "/debug/pprof/heap": http.StatusOK, "/debug/pprof/symbol": http.StatusOK,
		"/debug/pprof/cmdline": http.StatusNotFound, "/debug/pprof/nonsense": http.StatusNotFound,
	} {
		recorder := httptest.NewRecorder()
		mux.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
		if recorder.Code != want {
			t.Errorf("%s: %d, want %d", path, recorder.Code, want)
		}
	}
}
