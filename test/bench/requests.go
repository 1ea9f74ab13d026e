package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
)

// requests counts what the controllers ask the API server: by verb, resource and
// asker.
type requests struct {
	mu sync.Mutex
	by requestCounts
}

// requestCounts are numbers of requests by their names, as nameOf gives them.
type requestCounts map[string]int

// count is a transport that counts what passes.
func (r *requests) count(next http.RoundTripper) http.RoundTripper {
	return counting{r, next}
}

type counting struct {
	requests *requests
	next     http.RoundTripper
}

func (c counting) RoundTrip(request *http.Request) (*http.Response, error) {
	c.requests.add(nameOf(request) + " by " + asker())
	return c.next.RoundTrip(request)
}

func (r *requests) add(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by == nil {
		r.by = requestCounts{}
	}
	r.by[name]++
}

// since is what has been counted after an earlier look; nil looks from the start.
func (r *requests) since(before requestCounts) requestCounts {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := maps.Clone(r.by)
	for name, n := range before {
		if out[name] -= n; out[name] == 0 {
			delete(out, name)
		}
	}
	return out
}

// nameOf is the verb and the resource of a request, as an audit log has them.
func nameOf(request *http.Request) string {
	resource, named := resourceOf(request.URL.Path)
	verb := map[string]string{
		http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
	}[request.Method]
	switch {
	case verb != "get" || named:
	case request.URL.Query().Has("watch"):
		verb = "watch"
	default:
		verb = "list"
	}
	return cmp.Or(verb, request.Method) + " " + resource
}

// resourceOf is a path without its group, namespace and name, and whether it had a name.
func resourceOf(path string) (resource string, named bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	skip := 2 // api/v1
	if parts[0] == "apis" {
		skip = 3
	}
	parts = parts[min(skip, len(parts)):]
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	switch len(parts) {
	case 0:
		return "discovery", true
	case 1, 2:
		return parts[0], len(parts) == 2
	}
	return parts[0] + "/" + parts[2], true
}

const (
	ours = "github.com/macfleet/macfleet/internal/"
	// deepest is how many calls are looked at between a request and its reconcile.
	deepest = 96
	// askers is how many of our functions are named, the one that asks first.
	askers = 3
)

// asker names the functions of ours that the running request is made for, the nearest
// first; what asks in the background is named for what it does.
func asker() string {
	pcs := make([]uintptr, deepest)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	var names []string
	for {
		frame, more := frames.Next()
		switch {
		case strings.Contains(frame.Function, "cache.(*Reflector)"):
			return "watches"
		case strings.Contains(frame.Function, "/tools/events."):
			return "events"
		case strings.HasPrefix(frame.Function, ours+"tracing."), strings.HasPrefix(frame.Function, ours+"job."):
		case strings.HasPrefix(frame.Function, ours):
			names = append(names, strings.TrimPrefix(strings.TrimPrefix(frame.Function, ours), "controller/"))
		}
		if !more || len(names) == askers {
			return cmp.Or(strings.Join(names, " < "), "others")
		}
	}
}

func (c requestCounts) sum() (total int) {
	for _, n := range c {
		total += n
	}
	return total
}

// print lists who asks what how often for each of so many claims, the most first.
func (c requestCounts) print(out io.Writer, each string, claims int) {
	byVerb := requestCounts{}
	for name, n := range c {
		verb, _, _ := strings.Cut(name, " by ")
		byVerb[verb] += n
	}
	fmt.Fprintf(out, "\nrequests to the API server, %s: %.1f\n\n", each, float64(c.sum())/float64(claims))
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, counts := range []requestCounts{byVerb, c} {
		for _, name := range slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Or(counts[b]-counts[a], strings.Compare(a, b)) }) {
			request, who, _ := strings.Cut(name, " by ")
			fmt.Fprintf(table, "%.2f\t%s\t%s\n", float64(counts[name])/float64(claims), request, who)
		}
		fmt.Fprintln(table, "\t\t")
	}
	_ = table.Flush() // to the terminal
}
