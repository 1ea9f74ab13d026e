package tart

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Image is what a catalogue says about one tag; zero fields take the defaults of a
// small macOS image.
type Image struct {
	OS          string `json:"os,omitempty"`          // "darwin" (default) or "linux"
	CPUMin      int    `json:"cpuMin,omitempty"`      // cores, default 2
	MemoryMinMB int    `json:"memoryMinMB,omitempty"` // mebibytes, default 2048
	// Bytes are what a pull transfers, see [Plan].PullBytesPerSecond; default a tenth of
	// the disk.
	Bytes  int64 `json:"bytes,omitempty"`
	DiskGB int   `json:"diskGB,omitempty"` // decimal gigabytes the disk appears to have, default 1
	// DiskFormat is "raw" (default), a sparse file as long as the disk, or "asif", a
	// short one.
	DiskFormat string `json:"diskFormat,omitempty"`
	// Layers make it an image in layers, from the base up. A tart up to 2.35 takes
	// the base for the whole disk.
	Layers []Layer `json:"layers,omitempty"`
	// Status is an HTTP status with which the registry refuses: 401 without
	// credentials, anything else always. 0 serves the image.
	Status int `json:"status,omitempty"`

	digest string
}

// reference is a remote name: host/namespace:tag or host/namespace@sha256:….
type reference struct {
	host, namespace, tag, digest string
}

// remotePattern is tart's grammar: between letters and digits one separator at most,
// so that some names which registries have are none to tart.
var remotePattern = regexp.MustCompile(strings.ReplaceAll(
	`^(N(?:[.-]N)*(?::[0-9]+)?)/((?:N[._-]?)+(?:/(?:N[._-]?)+)*)(?::(N(?:[._-]N)*)|@(sha256:[0-9a-f]{64}))?$`, "N", "[A-Za-z0-9]+"))

func parseReference(name string) (reference, bool) {
	m := remotePattern.FindStringSubmatch(name)
	if m == nil || strings.Contains(m[2], "..") {
		return reference{}, false
	}
	r := reference{host: m[1], namespace: m[2], tag: m[3], digest: m[4]}
	if r.tag == "" && r.digest == "" {
		r.tag = "latest"
	}
	return r, true
}

func (r reference) String() string {
	if r.digest != "" {
		return r.host + "/" + r.namespace + "@" + r.digest
	}
	return r.host + "/" + r.namespace + ":" + r.tag
}

// byDigest is the same image under its digest.
func (r reference) byDigest(digest string) reference {
	return reference{host: r.host, namespace: r.namespace, digest: digest}
}

// dir is where the image is cached: a directory for a digest, a link for a tag.
func (h home) dir(r reference) vmDir {
	leaf := r.tag
	if r.digest != "" {
		leaf = r.digest
	}
	return vmDir(filepath.Join(h.registry(r.host), filepath.FromSlash(r.namespace), leaf))
}

// images is what knows registries, and the images in them.
type images struct{ *cli }

// manifest asks the registry for an image, see the package comment.
func (c images) manifest(r reference) (Image, error) {
	if err := c.plan.strikes(PullUnauthorized, r.String(), refusal(401)); err != nil {
		return Image{}, err
	}
	if err := c.plan.strikes(PullNotFound, r.String(), refusal(404)); err != nil {
		return Image{}, err
	}
	if err := c.plan.strikes(PullServerError, r.String(), refusal(500)); err != nil {
		return Image{}, err
	}
	image, err := c.lookUp(r)
	if err != nil {
		return image, err
	}
	if c.plan.asksFor(r) && image.Status == 0 {
		image.Status = 401
	}
	if image.Status != 0 && (image.Status != 401 || !c.hasCredentials(r)) {
		return image, refusal(image.Status)
	}
	return image.withDefaults(), nil
}

func (c images) lookUp(r reference) (Image, error) {
	if image, there := c.planned(r); there {
		return image, nil
	}
	catalogue := c.env.Getenv("TART_FAKE_REGISTRY")
	if catalogue == "" {
		return builtIn(r), nil
	}
	dir := filepath.Join(catalogue, r.host, filepath.FromSlash(r.namespace))
	if r.digest == "" {
		return readImage(r, filepath.Join(dir, r.tag+".json"))
	}
	tags, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return Image{}, fmt.Errorf("searching the image catalogue: %w", err)
	}
	for _, tag := range tags {
		if image, err := readImage(r, tag); err == nil && image.digest == r.digest {
			return image, nil
		}
	}
	return Image{}, refusal(404)
}

// readImage gives equal files of one repository the same digest, as a registry would.
func readImage(r reference, path string) (Image, error) {
	var image Image
	data, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return image, refusal(404)
	}
	if err != nil {
		return image, fmt.Errorf("reading the image catalogue: %w", err)
	}
	if err := json.Unmarshal(data, &image); err != nil {
		return image, fmt.Errorf("parsing %s: %w", path, err)
	}
	image.digest = digestOf(append([]byte(r.host+"/"+r.namespace+"\n"), data...))
	return image, nil
}

// builtIn invents an image from its name.
func builtIn(r reference) Image {
	image := Image{digest: r.digest}
	if image.digest == "" {
		image.digest = digestOf([]byte(r.String()))
	}
	switch {
	case strings.Contains(r.namespace, "missing") || strings.Contains(r.tag, "missing"):
		image.Status = 404
	case strings.Contains(r.namespace, "private"):
		image.Status = 401
	}
	for _, distribution := range []string{"linux", "ubuntu", "debian"} {
		if strings.Contains(r.namespace, distribution) {
			image.OS = osLinux
		}
	}
	return image
}

func digestOf(data []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(data)) }

func (i Image) withDefaults() Image {
	if i.OS == "" {
		i.OS = osDarwin
	}
	if i.CPUMin == 0 {
		i.CPUMin = 2
	}
	if i.MemoryMinMB == 0 {
		i.MemoryMinMB = 2048
	}
	if i.DiskFormat == "" {
		i.DiskFormat = formatRaw
	}
	if i.DiskGB == 0 {
		i.DiskGB = 1
	}
	if i.Bytes == 0 {
		i.Bytes = int64(i.DiskGB) * 100_000_000
	}
	return i
}

// planned is an image that the plan describes, found by its tag or its digest.
func (c images) planned(r reference) (Image, bool) {
	for name, image := range c.plan.Images {
		tag, ok := parseReference(name)
		if !ok || tag.host != r.host || tag.namespace != r.namespace {
			continue
		}
		data, err := json.Marshal(image)
		if err != nil {
			continue
		}
		image.digest = digestOf(append([]byte(r.host+"/"+r.namespace+"\n"), data...))
		if tag.tag == r.tag && r.digest == "" || image.digest == r.digest {
			return image, true
		}
	}
	return Image{}, false
}

// asksFor reports whether the plan wants credentials for an image.
func (p *armedPlan) asksFor(r reference) bool { return p.credentials(r) != "" }

// credentials are what the plan wants for an image; the longest part that fits counts.
func (p *armedPlan) credentials(r reference) string {
	best, found := "", ""
	for part, wanted := range p.Credentials {
		if matches(r.String(), part) && len(part) >= len(best) {
			best, found = part, wanted
		}
	}
	return found
}

// hasCredentials follows tart's environment provider, then what login has stored.
func (c images) hasCredentials(r reference) bool {
	given := c.logins()[r.host]
	user, password := c.env.Getenv("TART_REGISTRY_USERNAME"), c.env.Getenv("TART_REGISTRY_PASSWORD")
	only := c.env.Getenv("TART_REGISTRY_HOSTNAME")
	if user != "" && password != "" && (only == "" || only == r.host) {
		given = user + ":" + password
	}
	wanted := c.plan.credentials(r)
	return given != "" && (wanted == "" || wanted == given)
}

func refusal(status int) error {
	return fmt.Errorf("UnexpectedHTTPStatusCode(when: \"pulling manifest\", code: %d)", status)
}

// unpack writes the files of the image into dir.
func (c images) unpack(i Image, dir vmDir) error {
	sum := sha256.Sum256([]byte(i.digest))
	cfg := vmConfig{
		Version:       1,
		OS:            i.OS,
		Arch:          "arm64",
		CPUCountMin:   i.CPUMin,
		CPUCount:      max(4, i.CPUMin),
		MemorySizeMin: int64(i.MemoryMinMB) * mebibyte,
		MemorySize:    int64(max(4096, i.MemoryMinMB)) * mebibyte,
		MACAddress:    localMAC(sum[:]),
		Display:       display{Width: 1024, Height: 768},
		DiskFormat:    i.DiskFormat,
	}
	if i.OS == osDarwin {
		cfg.ECID, cfg.HardwareModel = sum[6:14], sum[14:30]
	}
	if err := c.unpackDisk(i, dir); err != nil {
		return err
	}
	if err := writeSparse(dir.nvram(), "simulated nvram\n", 0); err != nil {
		return fmt.Errorf("writing an nvram: %w", err)
	}
	return dir.writeConfig(cfg)
}

func (c images) unpackDisk(i Image, dir vmDir) error {
	size, text := int64(i.DiskGB)*1_000_000_000, "simulated disk of "+i.digest+"\n"
	switch {
	case len(i.Layers) > 0 && c.plan.minor() >= stackedMinor:
		return c.home.unpackStacked(i, dir)
	case i.DiskFormat == formatASIF:
		text, size = asifHeader(size)+text, 0
	}
	if err := writeSparse(dir.disk(), text, size); err != nil {
		return fmt.Errorf("writing a disk: %w", err)
	}
	return nil
}
