package converge

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
	"github.com/macfleet/macfleet/internal/converge/step"
)

const (
	// maxDownload and maxUnpacked bound what a server may send, in bytes. tart is
	// about 30 MB.
	maxDownload = 512 << 20
	maxUnpacked = 1 << 30
	maxEntries  = 10_000
	// downloadTimeout allows 1 MB/s for twice the size of a release.
	downloadTimeout = 2 * time.Minute
)

// Fetch opens what a URL names. What it returns ends with the context.
type Fetch func(ctx context.Context, url string) (io.ReadCloser, error)

// fetchHTTPS is the Fetch of a real Mac. It goes by no proxy that the environment of
// the caller names, and no server leads it to where nothing proves who answers.
func fetchHTTPS(ctx context.Context, url string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	if err := httpsOnly(request, nil); err != nil {
		return nil, err
	}
	response, err := httpsClient().Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		_ = response.Body.Close()
		return nil, refusal(response)
	}
	return response.Body, nil
}

// refusal is what an answer without the file asks for. A server that knows no such file
// says so to each Mac, and no reboot or wipe of any mends the URL.
func refusal(response *http.Response) error {
	switch code := response.StatusCode; {
	case code == http.StatusRequestTimeout, code == http.StatusTooManyRequests, code < 400, code >= 500:
		return fmt.Errorf("the server answers %s", response.Status)
	}
	return step.Fail(document.Human, "the server answers %s: look at the URL in the profile", response.Status)
}

func httpsClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy, transport.DisableKeepAlives = nil, true
	return &http.Client{Transport: transport, CheckRedirect: httpsOnly}
}

// maxRedirects is how often a server may name another place; two are usual.
const maxRedirects = 5

func httpsOnly(next *http.Request, before []*http.Request) error {
	if len(before) > maxRedirects {
		return step.Fail(document.Human, "the server names one place after another: look at the URL in the profile")
	}
	if next.URL.Scheme != "https" {
		return step.Fail(document.Human, "%s://%s is no https: name a URL in the profile that leads to https only", next.URL.Scheme, next.URL.Host)
	}
	return nil
}

// download puts what the URL names into a file, which appears only when it is
// whole and has the SHA-256.
func (x tart) download(ctx context.Context, url, sum, name string) error {
	ctx, cancel := context.WithTimeout(ctx, downloadTimeout)
	defer cancel()
	fetch := x.fetch
	if fetch == nil {
		fetch = fetchHTTPS
	}
	body, err := fetch(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	return x.Mac.Files.Replace(ctx, name, macos.Content{
		Data: &checked{from: body, want: sum, hash: sha256.New()},
		Attr: step.RootAttr(0o600),
	})
}

// checked fails at its end unless all that was read has the hash.
type checked struct {
	from io.Reader
	want string
	hash hash.Hash
	size int64
}

func (c *checked) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.hash.Write(p[:n])
	if c.size += int64(n); c.size > maxDownload {
		return n, step.Fail(document.Human, "it is larger than %d MB: look at the URL in the profile", maxDownload>>20)
	}
	if !errors.Is(err, io.EOF) {
		return n, err
	}
	if got := hex.EncodeToString(c.hash.Sum(nil)); got != c.want {
		// All of it came: a download that is cut ends in another error.
		return n, step.Fail(document.Human, "%d bytes with SHA-256 %s came, the profile wants %s: look at the URL in the profile, and its sha256", c.size, got, c.want)
	}
	return n, io.EOF
}

// unpack writes the folder of that name in a tar.gz to a place where nothing is.
func (x tart) unpack(ctx context.Context, archive, folder, to string) error {
	f, err := x.Mac.Files.Open(archive)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	packed, err := gzip.NewReader(f)
	if err != nil {
		return badArchive(err)
	}
	u := &unpacking{files: x.Mac.Files, folder: folder, to: to, made: map[string]bool{}}
	entries := tar.NewReader(packed)
	for {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return badArchive(err)
		}
		if err := u.entry(ctx, header, entries); err != nil {
			return err
		}
	}
	if !u.made[to] {
		return badArchive(fmt.Errorf("it holds no %s", folder))
	}
	return nil
}

func badArchive(err error) error {
	return step.Fail(document.Human, "what the URL names is no archive of the right kind: %w. Look at the profile", err)
}

// unpacking is an archive that is being unpacked.
type unpacking struct {
	files      macos.Files
	folder, to string
	made       map[string]bool
	entries    int
	size       int64
}

func (u *unpacking) entry(ctx context.Context, h *tar.Header, data io.Reader) error {
	u.entries++
	u.size += max(h.Size, 0)
	if u.entries > maxEntries || u.size > maxUnpacked {
		return badArchive(errors.New("it is larger than a release can be"))
	}
	inside, found := u.inside(h.Name)
	if !found {
		return nil
	}
	if !fs.ValidPath(inside) {
		return badArchive(fmt.Errorf("it holds the path %.64q", h.Name))
	}
	place := path.Join(u.to, inside)
	switch h.Typeflag {
	case tar.TypeDir:
		return u.mkdir(ctx, place)
	case tar.TypeReg:
		if err := u.mkdir(ctx, path.Dir(place)); err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if h.FileInfo().Mode()&0o100 != 0 {
			mode = 0o755
		}
		return u.files.Replace(ctx, place, macos.Content{
			Data: io.LimitReader(data, h.Size), Attr: step.RootAttr(mode),
		})
	}
	// A link could point out of the folder, and a signed bundle of ours has none.
	return badArchive(fmt.Errorf("%.64q is neither a file nor a folder", h.Name))
}

// inside is the path below the wanted folder; the folder itself is ".".
func (u *unpacking) inside(name string) (string, bool) {
	name = strings.TrimSuffix(strings.TrimPrefix(name, "./"), "/")
	if name == u.folder {
		return ".", true
	}
	return strings.CutPrefix(name, u.folder+"/")
}

// mkdir makes a folder and those above it, down from the unpacked one.
func (u *unpacking) mkdir(ctx context.Context, name string) error {
	if u.made[name] {
		return nil
	}
	if name != u.to {
		if err := u.mkdir(ctx, path.Dir(name)); err != nil {
			return err
		}
	}
	u.made[name] = true
	return u.files.MakeDir(ctx, name, step.RootAttr(0o755))
}
