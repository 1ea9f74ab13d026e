package stage

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

// Request is one line of the API server's audit log.
type Request struct {
	Stage     string    `json:"stage"`
	Verb      string    `json:"verb"`
	URI       string    `json:"requestURI"`
	UserAgent string    `json:"userAgent"`
	At        time.Time `json:"requestReceivedTimestamp"`
	User      struct {
		Username string `json:"username"`
	} `json:"user"`
	Object *struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	Response *struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
}

// Code of the answer, 0 when there was none.
func (r Request) Code() int {
	if r.Response == nil {
		return 0
	}
	return r.Response.Code
}

// What is verb and resource, for example "patch pods/status".
func (r Request) What() string {
	if r.Object == nil {
		return r.Verb + " " + r.URI
	}
	what := r.Object.Resource
	if r.Object.Subresource != "" {
		what += "/" + r.Object.Subresource
	}
	return r.Verb + " " + what
}

// nodeUser begins the names of nodes.
const nodeUser = "system:node:"

// NodeRequests are those that Macs have made since a moment, each once.
func (p *Plane) NodeRequests(since time.Time) ([]Request, error) {
	return p.requests(since, func(r Request) bool { return strings.HasPrefix(r.User.Username, nodeUser) })
}

// HollowRequests are those of hollow kubelets, which have an administrator's rights.
func (p *Plane) HollowRequests(since time.Time) ([]Request, error) {
	return p.requests(since, func(r Request) bool { return r.UserAgent == hollowAgent })
}

func (p *Plane) requests(since time.Time, of func(Request) bool) ([]Request, error) {
	f, err := os.Open(p.auditLog())
	if err != nil {
		return nil, fmt.Errorf("opening the audit log: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	var requests []Request
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r Request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			continue // the last line may be half written
		}
		// A watch has two lines: one when it begins, one when it ends.
		first := r.Stage == "ResponseStarted" || r.Stage == "ResponseComplete" && r.Verb != "watch"
		if first && of(r) && !r.At.Before(since) {
			requests = append(requests, r)
		}
	}
	return requests, lines.Err()
}
