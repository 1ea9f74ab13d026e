package shims

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"howett.net/plist"

	"github.com/macfleet/macfleet/sandbox/mac/amfi"
	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// codesignRequest is a codesign command line taken apart.
type codesignRequest struct {
	verify, display, sign, force, strict, deep bool
	verbose                                    int
	identity, identifier                       string
	// requirement is what a verified signature must satisfy, too; empty: nothing.
	requirement string
	paths       []string
}

// codesign checks, shows and makes signatures; of identities it knows "-".
func codesign(c *call) int {
	r, ok := signer{c}.parseCodesign()
	if !ok {
		return rcUsage
	}
	use := signer{c}.verifySignature
	switch {
	case r.sign && r.identity != "-":
		return c.unmodelled("identity " + r.identity)
	case r.sign:
		use = signer{c}.sign
	case r.display:
		use = signer{c}.displaySignature
	case !r.verify:
		return c.unmodelled("a form without --verify, -d or --sign")
	}
	rc := 0
	for _, path := range r.paths {
		switch err := use(r, path); {
		case errors.Is(err, errRequirement):
			fmt.Fprintln(c.err, err)
			rc = rcRequirement
		case err != nil:
			signer{c}.complainOfSignature(path, err)
			rc = 1
		}
	}
	return rc
}

// signer is what codesign does.
type signer struct{ *call }

func (c signer) parseCodesign() (codesignRequest, bool) {
	var r codesignRequest
	args := c.args
	value := func() string {
		if len(args) == 0 {
			return ""
		}
		v := args[0]
		args = args[1:]
		return v
	}
	for len(args) > 0 {
		a := value()
		switch a {
		case "--verify", "-v":
			r.verify = true
		case "-d", "--display":
			r.display = true
		case "-dv", "-dvv", "-dvvv", "-dvvvv":
			r.display, r.verbose = true, len(a)-2
		case "--verbose":
			r.verbose = 1
		case "--strict":
			r.strict = true
		case "--deep":
			r.deep = true
		case "--force", "-f":
			r.force = true
		case "--sign", "-s":
			r.sign, r.identity = true, value()
		case "--identifier", "-i":
			r.identifier = value()
		case "--test-requirement", "-R":
			r.requirement = value()
		default:
			if strings.HasPrefix(a, "-") {
				c.unmodelled("option " + a)
				return r, false
			}
			r.paths = append(r.paths, a)
		}
	}
	if len(r.paths) == 0 {
		c.errorf("no path given")
		return r, false
	}
	return r, true
}

// complainOfSignature says what codesign says; a tool of the system's own is
// in order however it is made here.
func (c signer) complainOfSignature(path string, err error) {
	switch {
	case errors.Is(err, amfi.ErrNotMachO):
		err = amfi.ErrUnsigned
	case errors.Is(err, amfi.ErrTruncated):
		err = errStrict
	}
	fmt.Fprintf(c.err, "%s: %s\n", path, reason(err))
	if errors.Is(err, amfi.ErrUnsigned) || errors.Is(err, amfi.ErrBroken) {
		fmt.Fprintln(c.err, "In architecture: arm64")
	}
}

// What codesign says of files whose bytes are not laid out as they should be,
// and of those it would have to sign over.
var (
	errStrict = errors.New("main executable failed strict validation")
	errSigned = errors.New("is already signed")
)

func (c signer) verifySignature(r codesignRequest, path string) error {
	_, s, err := c.signatureOf(path)
	if err == nil && r.strict && s.Trailing {
		return errStrict
	}
	if err != nil || r.requirement == "" {
		return err
	}
	team := ofTeam.FindStringSubmatch(r.requirement)
	if team == nil {
		c.unmodelled("requirement " + r.requirement)
		return errRequirement
	}
	if s.AdHoc() || s.Team != team[1] {
		return errRequirement
	}
	return nil
}

// rcRequirement is codesign's exit code where a signature is valid, and not what the
// requirement asks for.
const rcRequirement = 3

var errRequirement = errors.New("test-requirement: code failed to satisfy specified code requirement(s)")

// ofTeam is the one requirement that is understood: a certificate that Apple gave to
// a team. Text, and no file with a compiled one, begins with "=".
var ofTeam = regexp.MustCompile(`^=anchor apple generic and certificate leaf\[subject\.OU\] = "([0-9A-Z]{10})"$`)

// signatureOf reads the signature of a program, or of the main program of a
// bundle.
func (c signer) signatureOf(path string) (string, amfi.Signature, error) {
	program, err := mainProgram(path)
	if err != nil {
		return "", amfi.Signature{}, err
	}
	if real, err := filepath.EvalSymlinks(program); err == nil && filepath.Dir(real) == wire.HiddenDir {
		return program, amfi.Signature{Identifier: "com.apple." + filepath.Base(path)}, nil
	}
	f, err := os.Open(program)
	if err != nil {
		return "", amfi.Signature{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", amfi.Signature{}, err
	}
	s, err := amfi.Check(f, info.Size())
	return program, s, err
}

// mainProgram is the program a bundle's Info.plist names, or path itself.
func mainProgram(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return path, err
	}
	data, err := os.ReadFile(filepath.Join(path, "Contents", "Info.plist"))
	if err != nil {
		return "", errBundle
	}
	var about struct {
		Executable string `plist:"CFBundleExecutable"`
	}
	if _, err := plist.Unmarshal(data, &about); err != nil || about.Executable == "" {
		return "", errBundle
	}
	return filepath.Join(path, "Contents", "MacOS", about.Executable), nil
}

var errBundle = errors.New("bundle format unrecognized, invalid, or unsuitable")

func (c signer) displaySignature(r codesignRequest, path string) error {
	program, s, err := c.signatureOf(path)
	if err != nil && !errors.Is(err, amfi.ErrBroken) {
		return err
	}
	abs, err := filepath.Abs(program)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.err, "Executable=%s\n", abs)
	if r.verbose == 0 {
		return nil
	}
	names, team := []string{"adhoc"}, "not set"
	if s.Team != "" {
		names, team = []string{"none"}, s.Team
	}
	if s.LinkerSigned() {
		names = append(names, "linker-signed")
	}
	fmt.Fprintf(c.err, "Identifier=%s\nFormat=Mach-O thin (arm64)\n", s.Identifier)
	fmt.Fprintf(c.err, "CodeDirectory v=%x size=%d flags=%#x(%s) hashes=%d+%d location=embedded\n",
		s.Version, s.Size, s.Flags, strings.Join(names, ","), s.Slots, s.Special)
	if r.verbose > 1 {
		hash := hex.EncodeToString(s.CDHash[:])
		fmt.Fprintf(c.err, "Hash type=sha256 size=32\nCandidateCDHash sha256=%s\nCDHash=%s\n", hash, hash)
	}
	if s.AdHoc() {
		fmt.Fprintln(c.err, "Signature=adhoc")
	}
	fmt.Fprintf(c.err, "Info.plist=not bound\nTeamIdentifier=%s\n", team)
	return nil
}

// sign writes the signed program beside the old one and renames it over: the
// file is a new one afterwards.
func (c signer) sign(r codesignRequest, path string) error {
	program, err := mainProgram(path)
	if err != nil {
		return err
	}
	if program, err = filepath.EvalSymlinks(program); err != nil {
		return err
	}
	old, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	_, err = amfi.Check(bytes.NewReader(old), int64(len(old)))
	if !errors.Is(err, amfi.ErrUnsigned) && !r.force {
		return errSigned
	}
	identifier := r.identifier
	if identifier == "" {
		identifier = filepath.Base(program)
	}
	signed, err := amfi.Sign(old, identifier)
	if err != nil {
		return err
	}
	if err := c.replaceProgram(program, signed); err != nil {
		return err
	}
	if r.force {
		fmt.Fprintf(c.err, "%s: replacing existing signature\n", path)
	}
	return c.recordSigned(old, signed)
}

func (c signer) replaceProgram(path string, data []byte) error {
	if err := errors.Join(c.mayChange(path), c.mayChangeFile(path, true)); err != nil {
		return fs.ErrPermission
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	owner, err := c.owner(path)
	if err != nil {
		return err
	}
	next := path + ".cstemp"
	if err := os.WriteFile(next, data, info.Mode().Perm()); err != nil {
		return errors.Join(err, os.Remove(next))
	}
	if err := errors.Join(os.Chmod(next, info.Mode().Perm()), c.setOwner(next, owner)); err != nil {
		return errors.Join(err, os.Remove(next))
	}
	return os.Rename(next, path)
}

// recordSigned has the new bytes run as the twin of the old ones.
func (c signer) recordSigned(old, signed []byte) error {
	from, to := sha256.Sum256(old), sha256.Sum256(signed)
	if from == to {
		return nil
	}
	a, err := c.ask(wire.Call{Resigned: &wire.Resigned{SHA256: hex.EncodeToString(to[:]), From: hex.EncodeToString(from[:])}})
	if err == nil && a.Error != "" {
		err = errors.New(a.Error)
	}
	return err
}
