package scaleway

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// Names of the credentials: environment variables, and the keys of the Secret.
const (
	AccessKeyName = "SCW_ACCESS_KEY"
	SecretKeyName = "SCW_SECRET_KEY" // a name, no value
	ProjectIDName = "SCW_DEFAULT_PROJECT_ID"
	APIURLName    = "SCW_API_URL"
)

// sourceInterval bounds how often the source of credentials is looked at.
const sourceInterval = 5 * time.Second

// longestCredential bounds a file: a value is a UUID or an address.
const longestCredential = 4 << 10

// Credentials are what can change while a Client lives, all but the project.
type Credentials struct {
	AccessKey string
	SecretKey string
	ProjectID string
	// APIURL of the vendor; empty: defaultAPIURL.
	APIURL string
}

// String hides the secret key.
func (c Credentials) String() string {
	return fmt.Sprintf("scaleway project %s at %s", c.ProjectID, c.APIURL)
}

// GoString hides the secret key.
func (c Credentials) GoString() string { return c.String() }

// Environment returns what getenv knows.
func Environment(getenv func(string) string) Credentials {
	return Credentials{
		AccessKey: getenv(AccessKeyName), SecretKey: getenv(SecretKeyName),
		ProjectID: getenv(ProjectIDName), APIURL: getenv(APIURLName),
	}
}

// Directory returns a source that reads a mounted Secret: one file a value, named
// as the environment variables are. A file that is not there is an empty value.
func Directory(path string) func() (Credentials, error) {
	return func() (Credentials, error) {
		from := path
		// The kubelet replaces all files of a mount at once, by moving this link: read
		// through it, or half of them are old.
		if resolved, err := filepath.EvalSymlinks(filepath.Join(path, "..data")); err == nil {
			from = resolved
		}
		if _, err := os.Stat(from); err != nil {
			return Credentials{}, fmt.Errorf("reading the vendor's credentials: %w", err)
		}
		var failed error
		read := Environment(func(name string) string {
			text, err := readValue(filepath.Join(from, name))
			if err != nil && failed == nil {
				failed = fmt.Errorf("reading %s: %w", name, err)
			}
			return text
		})
		return read, failed
	}
}

func readValue(path string) (string, error) {
	file, err := os.Open(path) // the path is the operator's
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, longestCredential))
	return strings.TrimSpace(string(text)), err
}

// sessions hands out the SDK with the credentials of now.
type sessions struct {
	opts      Options
	transport *http.Client
	clock     clock.PassiveClock
	now       atomic.Pointer[session]

	mu      sync.Mutex
	looked  time.Time
	used    Credentials
	problem string // what was last said
}

func newSessions(opts Options) (*sessions, error) {
	s := &sessions{opts: opts, transport: httpClient(opts), clock: opts.Clock, used: opts.credentials()}
	if opts.Clock == nil {
		s.clock = clock.RealClock{}
	}
	s.looked = s.clock.Now()
	first, err := newSession(opts, s.transport, s.looked)
	if err != nil {
		return nil, err
	}
	s.now.Store(first)
	return s, nil
}

// current is the session to use. Credentials that cannot be used are said once,
// and the old ones kept.
func (s *sessions) current() *session {
	if s.opts.Source != nil && s.mu.TryLock() {
		if now := s.clock.Now(); now.Sub(s.looked) >= sourceInterval {
			s.looked = now
			s.look()
		}
		s.mu.Unlock()
	}
	return s.now.Load()
}

func (s *sessions) look() {
	changed, err := s.renew()
	switch {
	case err != nil && err.Error() != s.problem:
		s.note(err.Error())
		s.opts.Log.Error(err, "The vendor's new credentials cannot be used; the old ones stay")
	case err == nil && s.problem != "":
		s.note("")
	}
	if changed {
		s.opts.Log.Info("The vendor's credentials changed; the new ones are used from now on")
	}
}

// note has the failures of calls tell what is wrong with credentials that are not used.
func (s *sessions) note(problem string) {
	s.problem = problem
	noted := *s.now.Load()
	noted.problem = problem
	s.now.Store(&noted)
}

func (s *sessions) renew() (changed bool, err error) {
	found, err := s.opts.Source()
	if err != nil || found == s.used {
		return false, err
	}
	opts := s.opts.with(found)
	if err := opts.Validate(); err != nil {
		return false, err
	}
	if found.ProjectID != s.used.ProjectID {
		return false, &OptionError{ProjectIDName, "has changed: another project has other hosts, which a restart does not bring either; give a key of the project before", errProjectChanged}
	}
	next, err := newSession(opts, s.transport, s.looked)
	if err != nil {
		return false, err
	}
	s.used = found
	s.now.Store(next)
	return true, nil
}
