package scaleway

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-logr/logr"
	"github.com/scaleway/scaleway-sdk-go/validation"
	"k8s.io/utils/clock"
)

// DefaultQPS is the only figure known for the vendor's whole API, from an old
// answer of its support: about 100 requests a second.
const DefaultQPS = 100

// defaultAPIURL is the vendor's public address.
const defaultAPIURL = "https://api.scaleway.com"

// Options of a Client. AccessKey, SecretKey and ProjectID have no default, unless
// there is a Source.
type Options struct {
	AccessKey string
	SecretKey string
	ProjectID string
	// APIURL of the vendor. Default: defaultAPIURL.
	APIURL string
	// Source of credentials that can change, asked again every few seconds before a
	// call. It replaces the values above; the project never changes. Default: none.
	Source func() (Credentials, error)
	// QPS bounds the requests a second of this client. Default: DefaultQPS.
	QPS float64
	// UserAgent is appended to the SDK's own.
	UserAgent string
	// HTTPClient carries the requests; its timeout is not used, each call has a
	// deadline of its own. Default: a client with the default transport.
	HTTPClient *http.Client
	// Clock of the budget and of looks at the Source; deadlines of calls are in real
	// time. Default: the real one.
	Clock clock.Clock
	// Log is told of changed credentials. Default: nobody is.
	Log logr.Logger
}

func (o Options) credentials() Credentials {
	return Credentials{AccessKey: o.AccessKey, SecretKey: o.SecretKey, ProjectID: o.ProjectID, APIURL: o.APIURL}
}

func (o Options) with(c Credentials) Options {
	o.AccessKey, o.SecretKey, o.ProjectID, o.APIURL = c.AccessKey, c.SecretKey, c.ProjectID, c.APIURL
	return o
}

// ErrNoCredentials is in the chain of an OptionError about a missing value.
var ErrNoCredentials = errors.New("credentials are missing")

// ErrMalformed is in the chain of an OptionError about a value that cannot be right.
var ErrMalformed = errors.New("malformed value")

// errProjectChanged is in the chain of an OptionError about another project.
var errProjectChanged = errors.New("the project has changed")

// OptionError says which setting is wrong, by the name of its environment
// variable. It never repeats the value.
type OptionError struct {
	Variable string
	Problem  string
	cause    error
}

// Error is one clear line for people.
func (e *OptionError) Error() string { return e.Variable + " " + e.Problem }

// Unwrap returns ErrNoCredentials, ErrMalformed or errProjectChanged.
func (e *OptionError) Unwrap() error { return e.cause }

// Validate reports the first setting that is missing or cannot be right.
func (o Options) Validate() error {
	for _, check := range []struct {
		variable, value, form string
		ok                    func(string) bool
	}{
		{AccessKeyName, o.AccessKey, "SCW and 17 capital letters or digits", validation.IsAccessKey},
		{SecretKeyName, o.SecretKey, "a UUID", validation.IsSecretKey},
		{ProjectIDName, o.ProjectID, "a UUID", validation.IsProjectID},
	} {
		switch {
		case check.value == "":
			return &OptionError{check.variable, "is not set", ErrNoCredentials}
		case !check.ok(check.value):
			return &OptionError{check.variable, "is malformed: it must be " + check.form, ErrMalformed}
		}
	}
	return validateURL(o.APIURL)
}

// validateURL refuses to send the secret key in clear text over a network.
func validateURL(text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") || strings.HasSuffix(text, "/") {
		return &OptionError{APIURLName, "is malformed: it must be https://host, without a slash at the end", ErrMalformed}
	}
	if u.Scheme == "http" && !isLoopback(u.Hostname()) {
		return &OptionError{APIURLName, "would send the secret key in clear text: http is for loopback addresses only", ErrMalformed}
	}
	return nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}

// String hides the secret key.
func (o Options) String() string {
	return o.credentials().String()
}

// GoString hides the secret key.
func (o Options) GoString() string { return o.String() }
