package shims

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ulikunitz/xz"
)

// open returns a file, or stdin for "-".
func (c *call) open(path string) (io.ReadCloser, error) {
	if path == "-" || path == "/dev/stdin" {
		return io.NopCloser(c.in), nil
	}
	return os.Open(path)
}

// read hands each named input, or stdin, to use.
func (c *call) read(paths []string, use func(path string, r io.Reader) error) int {
	if len(paths) == 0 {
		paths = []string{"-"}
	}
	return c.perform(paths, func(p string) error {
		r, err := c.open(p)
		if err != nil {
			return err
		}
		defer r.Close()
		return use(p, r)
	})
}

func cat(c *call) int {
	_, paths, ok := c.parse("u", "")
	if !ok {
		return rcUsage
	}
	return c.read(paths, func(_ string, r io.Reader) error {
		_, err := io.Copy(c.out, r)
		return err
	})
}

func tee(c *call) int {
	f, paths, ok := c.parse("a", "")
	if !ok {
		return rcUsage
	}
	flag := os.O_TRUNC
	if f.has('a') {
		flag = os.O_APPEND
	}
	outs := []io.Writer{c.out}
	for _, p := range paths {
		_, err := os.Lstat(p)
		fresh := err != nil
		if fresh {
			err = c.mayChange(p)
		} else {
			err = c.mayChangeFile(p, true)
		}
		if err != nil {
			return c.fail(p, err)
		}
		file, err := os.OpenFile(p, os.O_WRONLY|os.O_CREATE|flag, 0o666)
		if err != nil {
			return c.fail(p, err)
		}
		defer file.Close()
		if fresh {
			if err := c.setOwner(p, c.mine()); err != nil {
				return c.fail(p, err)
			}
		}
		outs = append(outs, file)
	}
	if _, err := io.Copy(io.MultiWriter(outs...), c.in); err != nil {
		return c.fail("stdin", err)
	}
	return 0
}

// gunzip writes what is compressed on stdin or in a file to stdout. As Apple's
// does, it reads xz too; xz itself reads nothing else. Replacing the file,
// gunzip's other habit, is not modelled.
func gunzip(c *call) int {
	f, paths, ok := c.parse("cdftq", "")
	if !ok {
		return rcUsage
	}
	if c.name != "gunzip" && !f.has('d') && !f.has('t') {
		return c.unmodelled("compressing")
	}
	if len(paths) > 0 && !f.has('c') && !f.has('t') {
		return c.unmodelled("replacing a file")
	}
	out := c.out
	if f.has('t') {
		out = io.Discard
	}
	return c.read(paths, func(_ string, r io.Reader) error {
		z, err := unpacked(r, c.name == "xz")
		if err != nil {
			return err
		}
		_, err = io.Copy(out, z)
		return err
	})
}

// xzMagic begins every .xz file, and xzEnd ends it.
const (
	xzMagic = "\xfd7zXZ\x00"
	xzEnd   = "YZ"
)

func unpacked(r io.Reader, xzOnly bool) (io.Reader, error) {
	buffered := bufio.NewReader(r)
	begin, err := buffered.Peek(len(xzMagic))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if !xzOnly && string(begin) != xzMagic {
		return gzip.NewReader(buffered)
	}
	data, err := io.ReadAll(buffered)
	if err != nil {
		return nil, err
	}
	// The decoder takes a file cut between two blocks for a whole one.
	if string(begin) == xzMagic && !bytes.HasSuffix(data, []byte(xzEnd)) {
		return nil, io.ErrUnexpectedEOF
	}
	return xz.NewReader(bytes.NewReader(data))
}

// shasum knows -a 256 only, and -c over lines of its own making.
func shasum(c *call) int {
	f, paths, ok := c.parse("bcqs", "a")
	if !ok {
		return rcUsage
	}
	if f['a'] != "256" {
		return c.unmodelled("algorithm other than 256")
	}
	if f.has('c') {
		return c.checkSums(paths, f.has('s'))
	}
	return c.read(paths, func(p string, r io.Reader) error {
		h := sha256.New()
		if _, err := io.Copy(h, r); err != nil {
			return err
		}
		fmt.Fprintf(c.out, "%x  %s\n", h.Sum(nil), p)
		return nil
	})
}

func (c *call) checkSums(paths []string, silent bool) int {
	bad := 0
	rc := c.read(paths, func(_ string, r io.Reader) error {
		lines, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		for _, l := range strings.Split(strings.TrimSpace(string(lines)), "\n") {
			want, name, ok := strings.Cut(l, "  ")
			if !ok {
				return errors.New("no properly formatted SHA checksum lines found")
			}
			verdict := "OK"
			data, err := os.ReadFile(name)
			if sum := sha256.Sum256(data); err != nil || hex.EncodeToString(sum[:]) != want {
				bad, verdict = bad+1, "FAILED"
			}
			if !silent {
				fmt.Fprintf(c.out, "%s: %s\n", name, verdict)
			}
		}
		return nil
	})
	if bad > 0 {
		return 1
	}
	return rc
}

func cmp(c *call) int {
	f, paths, ok := c.parse("s", "")
	if !ok || len(paths) != 2 {
		return rcUsage
	}
	var data [2][]byte
	for i, p := range paths {
		r, err := c.open(p)
		if err == nil {
			data[i], err = io.ReadAll(r)
			_ = r.Close()
		}
		if err != nil {
			c.fail(p, err)
			return 2
		}
	}
	if bytes.Equal(data[0], data[1]) {
		return 0
	}
	if !f.has('s') {
		fmt.Fprintf(c.out, "%s %s differ\n", paths[0], paths[1])
	}
	return 1
}

// dd copies blocks. Sizes take BSD's k and m.
func dd(c *call) int {
	o := map[string]string{}
	for _, a := range c.args {
		k, v, ok := strings.Cut(a, "=")
		if !ok || !slices.Contains([]string{"if", "of", "bs", "count", "skip", "seek", "conv", "status"}, k) {
			return c.unmodelled("operand " + a)
		}
		o[k] = v
	}
	n := map[string]int64{"bs": 512, "count": -1}
	for _, k := range []string{"bs", "count", "skip", "seek"} {
		if v, ok := o[k]; ok {
			size, ok := blockSize(v)
			if !ok {
				return c.unmodelled(k + "=" + v)
			}
			n[k] = size
		}
	}
	if err := c.copyBlocks(o, n["bs"], n["count"], n["skip"], n["seek"]); err != nil {
		return c.fail("dd", err)
	}
	return 0
}

func blockSize(s string) (int64, bool) {
	unit := int64(1)
	switch {
	case strings.HasSuffix(s, "k"):
		s, unit = s[:len(s)-1], 1<<10
	case strings.HasSuffix(s, "m"):
		s, unit = s[:len(s)-1], 1<<20
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n * unit, err == nil && n >= 0
}

func (c *call) copyBlocks(o map[string]string, bs, count, skip, seek int64) error {
	var in io.Reader = c.in
	if path, ok := o["if"]; ok {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	if _, err := io.CopyN(io.Discard, in, skip*bs); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if count >= 0 {
		in = io.LimitReader(in, count*bs)
	}
	out := c.out
	if path, ok := o["of"]; ok {
		f, err := c.ddTarget(path, strings.Contains(o["conv"], "notrunc"), seek*bs)
		if err != nil {
			return err
		}
		defer f.Close()
		out = f
	}
	n, err := io.Copy(out, in)
	if o["status"] != "none" {
		fmt.Fprintf(c.err, "%d+%d records in\n%d+%d records out\n%d bytes transferred\n",
			n/max(bs, 1), min(n%max(bs, 1), 1), n/max(bs, 1), min(n%max(bs, 1), 1), n)
	}
	return err
}

func (c *call) ddTarget(path string, keep bool, offset int64) (*os.File, error) {
	_, err := os.Lstat(path)
	fresh := err != nil
	if fresh {
		err = c.mayChange(path)
	} else {
		err = c.mayChangeFile(path, true)
	}
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	if fresh {
		err = c.setOwner(path, c.mine())
	}
	if err == nil && !keep {
		err = f.Truncate(offset)
	}
	if err == nil {
		_, err = f.Seek(offset, io.SeekStart)
	}
	return f, err
}

func sleep(c *call) int {
	if len(c.args) != 1 {
		return rcUsage
	}
	s, err := strconv.ParseFloat(c.args[0], 64)
	if err != nil || s < 0 {
		return c.unmodelled(c.args[0])
	}
	time.Sleep(time.Duration(s * float64(time.Second)))
	return 0
}
