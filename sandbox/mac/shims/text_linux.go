package shims

import (
	"bufio"
	"debug/macho"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

func echo(c *call) int {
	args, end := c.args, "\n"
	if len(args) > 0 && args[0] == "-n" {
		args, end = args[1:], ""
	}
	fmt.Fprint(c.out, strings.Join(args, " "), end)
	return 0
}

func pwd(c *call) int {
	dir, err := os.Getwd()
	if err != nil {
		return c.fail(".", err)
	}
	fmt.Fprintln(c.out, dir)
	return 0
}

func basename(c *call) int {
	if len(c.args) == 0 || len(c.args) > 2 {
		return rcUsage
	}
	name := filepath.Base(c.args[0])
	if len(c.args) == 2 && name != c.args[1] {
		name = strings.TrimSuffix(name, c.args[1])
	}
	fmt.Fprintln(c.out, name)
	return 0
}

func dirname(c *call) int {
	if len(c.args) != 1 {
		return rcUsage
	}
	fmt.Fprintln(c.out, filepath.Dir(c.args[0]))
	return 0
}

func readlink(c *call) int {
	f, paths, ok := c.parse("fn", "")
	if !ok || len(paths) != 1 {
		return rcUsage
	}
	read := os.Readlink
	if f.has('f') {
		read = filepath.EvalSymlinks
	}
	target, err := read(paths[0])
	if err != nil {
		return 1 // silent, as the real one
	}
	fmt.Fprint(c.out, target)
	if !f.has('n') {
		fmt.Fprintln(c.out)
	}
	return 0
}

// env runs a command with a changed environment, or prints it. Of a program
// for Macs pid 1 may have a twin.
func env(c *call) int {
	f, rest, ok := c.parse("i", "")
	if !ok {
		return rcUsage
	}
	vars := os.Environ()
	if f.has('i') {
		vars = nil
	}
	for len(rest) > 0 && strings.Contains(rest[0], "=") {
		name, _, _ := strings.Cut(rest[0], "=")
		vars = slices.DeleteFunc(vars, func(v string) bool { return strings.HasPrefix(v, name+"=") })
		vars, rest = append(vars, rest[0]), rest[1:]
	}
	if len(rest) == 0 {
		fmt.Fprintln(c.out, strings.Join(vars, "\n"))
		return 0
	}
	path, err := lookPath(rest[0])
	if err != nil {
		c.errorf("%s: No such file or directory", rest[0])
		return rcNotFound
	}
	if f, err := macho.Open(path); err == nil {
		_ = f.Close()
		return c.start(wire.Run{Path: path, Argv: rest, Env: vars, UID: c.uid})
	}
	c.leave(append([]string{c.name}, c.args...), 0) // exec does not come back
	err = syscall.Exec(path, rest, vars)
	c.errorf("%s: %s", rest[0], reason(err))
	return 126
}

func date(c *call) int {
	f, rest, ok := c.parse("u", "")
	if !ok {
		return rcUsage
	}
	now := time.Now()
	if f.has('u') {
		now = now.UTC()
	}
	forms := map[string]string{
		"+%s": strconv.FormatInt(now.Unix(), 10), "+%Y-%m-%dT%H:%M:%SZ": now.Format("2006-01-02T15:04:05Z"),
		"+%FT%TZ": now.Format("2006-01-02T15:04:05Z"), "": now.Format(time.UnixDate),
	}
	text, ok := forms[strings.Join(rest, " ")]
	if !ok {
		return c.unmodelled("date " + strings.Join(rest, " "))
	}
	fmt.Fprintln(c.out, text)
	return 0
}

func seq(c *call) int {
	first, last := 1, 0
	var err error
	switch len(c.args) {
	case 1:
		last, err = strconv.Atoi(c.args[0])
	case 2:
		if first, err = strconv.Atoi(c.args[0]); err == nil {
			last, err = strconv.Atoi(c.args[1])
		}
	default:
		return c.unmodelled(strings.Join(c.args, " "))
	}
	if err != nil {
		return c.unmodelled(strings.Join(c.args, " "))
	}
	for n := first; n <= last; n++ {
		fmt.Fprintln(c.out, n)
	}
	return 0
}

func wc(c *call) int {
	f, paths, ok := c.parse("clw", "")
	if !ok {
		return rcUsage
	}
	return c.read(paths, func(p string, r io.Reader) error {
		lines, words, size, err := count(r)
		if err != nil {
			return err
		}
		for _, v := range []struct {
			letter byte
			n      int64
		}{{'l', lines}, {'w', words}, {'c', size}} {
			if len(f) == 0 || f.has(v.letter) {
				fmt.Fprintf(c.out, " %7d", v.n)
			}
		}
		if p != "-" {
			fmt.Fprint(c.out, " "+p)
		}
		fmt.Fprintln(c.out)
		return nil
	})
}

func count(r io.Reader) (lines, words, size int64, err error) {
	b := bufio.NewReader(r)
	inWord := false
	for {
		ch, err := b.ReadByte()
		if errors.Is(err, io.EOF) {
			return lines, words, size, nil
		}
		if err != nil {
			return lines, words, size, err
		}
		size++
		if ch == '\n' {
			lines++
		}
		space := strings.IndexByte(" \t\r\n\v\f", ch) >= 0
		if !space && !inWord {
			words++
		}
		inWord = !space
	}
}

func head(c *call) int {
	f, paths, ok := c.parse("", "nc")
	if !ok {
		return rcUsage
	}
	n, err := strconv.ParseInt(f['n']+f['c'], 10, 64)
	if len(f) == 0 {
		n, err = 10, nil
	}
	if err != nil || n < 0 || len(f) > 1 {
		return c.unmodelled("count " + f['n'] + f['c'])
	}
	return c.read(paths, func(_ string, r io.Reader) error {
		if f.has('c') {
			_, err := io.CopyN(c.out, r, n)
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return err
		}
		b := bufio.NewReader(r)
		for range n {
			line, err := b.ReadBytes('\n')
			if _, werr := c.out.Write(line); werr != nil || err != nil {
				break
			}
		}
		return nil
	})
}

// tail keeps the last lines or bytes, or with a plus starts at one.
func tail(c *call) int {
	f, paths, ok := c.parse("", "nc")
	if !ok {
		return rcUsage
	}
	arg := f['n'] + f['c']
	if len(f) == 0 {
		arg = "10"
	}
	n, err := strconv.Atoi(arg)
	if err != nil || n < 0 || len(f) > 1 {
		return c.unmodelled("count " + arg)
	}
	return c.read(paths, func(_ string, r io.Reader) error {
		data, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		units := strings.SplitAfter(string(data), "\n")
		if f.has('c') {
			units = strings.Split(string(data), "")
		} else if units[len(units)-1] == "" {
			units = units[:len(units)-1]
		}
		from := max(len(units)-n, 0)
		if strings.HasPrefix(arg, "+") {
			from = min(max(n-1, 0), len(units))
		}
		_, err = io.WriteString(c.out, strings.Join(units[from:], ""))
		return err
	})
}

func tr(c *call) int {
	f, sets, ok := c.parse("d", "")
	if !ok {
		return rcUsage
	}
	if (f.has('d') && len(sets) != 1) || (!f.has('d') && len(sets) != 2) {
		return c.unmodelled(strings.Join(c.args, " "))
	}
	from := expandSet(sets[0])
	var to string
	if !f.has('d') {
		to = expandSet(sets[1])
		if to == "" {
			return c.unmodelled("an empty second set")
		}
	}
	data, err := io.ReadAll(c.in)
	if err != nil {
		return c.fail("stdin", err)
	}
	out := make([]byte, 0, len(data))
	for _, b := range data {
		i := strings.IndexByte(from, b)
		switch {
		case i < 0:
			out = append(out, b)
		case to != "":
			out = append(out, to[min(i, len(to)-1)])
		}
	}
	if _, err := c.out.Write(out); err != nil {
		return 1
	}
	return 0
}

// expandSet knows escapes, ranges and the classes scripts use.
func expandSet(s string) string {
	const upper, lower, digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz", "0123456789"
	s = strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\r`, "\r", `\\`, `\`, "[:upper:]", upper, "[:lower:]", lower,
		"[:digit:]", digits, "[:alnum:]", upper+lower+digits, "[:space:]", " \t\n\v\f\r").Replace(s)
	var out []byte
	for i := 0; i < len(s); i++ {
		if i+2 < len(s) && s[i+1] == '-' && s[i] <= s[i+2] {
			for b := int(s[i]); b <= int(s[i+2]); b++ {
				out = append(out, byte(b))
			}
			i += 2
			continue
		}
		out = append(out, s[i])
	}
	return string(out)
}

func (c *call) lines(paths []string) ([]string, int) {
	var out []string
	rc := c.read(paths, func(_ string, r io.Reader) error {
		data, err := io.ReadAll(r)
		if err != nil || len(data) == 0 {
			return err
		}
		out = append(out, strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")...)
		return nil
	})
	return out, rc
}

func cut(c *call) int {
	f, paths, ok := c.parse("s", "dfc")
	if !ok {
		return rcUsage
	}
	from, to, ok := span(f['f'] + f['c'])
	if !ok || f.has('f') == f.has('c') {
		return c.unmodelled(strings.Join(c.args, " "))
	}
	sep := "\t"
	if f.has('d') {
		sep = f['d']
	}
	if f.has('c') {
		sep = ""
	}
	lines, rc := c.lines(paths)
	for _, l := range lines {
		if sep != "" && !strings.Contains(l, sep) {
			if !f.has('s') {
				fmt.Fprintln(c.out, l)
			}
			continue
		}
		parts := strings.Split(l, sep)
		fmt.Fprintln(c.out, strings.Join(parts[min(from-1, len(parts)):min(to, len(parts))], sep))
	}
	return rc
}

// span reads N, N-, -M and N-M.
func span(s string) (from, to int, ok bool) {
	a, b, ranged := strings.Cut(s, "-")
	from, to = 1, 1<<30
	var err error
	if a != "" {
		if from, err = strconv.Atoi(a); err != nil {
			return 0, 0, false
		}
	}
	switch {
	case !ranged:
		to = from
	case b != "":
		if to, err = strconv.Atoi(b); err != nil {
			return 0, 0, false
		}
	}
	return from, to, from >= 1 && to >= from && s != "" && s != "-"
}

func sortLines(c *call) int {
	f, paths, ok := c.parse("ru", "")
	if !ok {
		return rcUsage
	}
	lines, rc := c.lines(paths)
	slices.Sort(lines)
	if f.has('u') {
		lines = slices.Compact(lines)
	}
	if f.has('r') {
		slices.Reverse(lines)
	}
	for _, l := range lines {
		fmt.Fprintln(c.out, l)
	}
	return rc
}

// grep takes one pattern: fixed with -F, extended with -E, and basic only when
// basic and extended mean the same.
func grep(c *call) int {
	f, rest, ok := c.parse("qEFvcix", "e")
	if !ok {
		return rcUsage
	}
	pattern := f['e']
	if !f.has('e') {
		if len(rest) == 0 {
			return rcUsage
		}
		pattern, rest = rest[0], rest[1:]
	}
	if f.has('F') {
		pattern = regexp.QuoteMeta(pattern)
	} else if !f.has('E') && strings.ContainsAny(pattern, `+?|(){}\`) {
		return c.unmodelled("basic pattern " + pattern)
	}
	if f.has('x') {
		pattern = "^(?:" + pattern + ")$"
	}
	if f.has('i') {
		pattern = "(?i)" + pattern
	}
	re, err := regexp.Compile(pattern)
	if err != nil || len(rest) > 1 {
		return c.unmodelled("pattern " + pattern)
	}
	lines, rc := c.lines(rest)
	if rc != 0 {
		return 2
	}
	n := 0
	for _, l := range lines {
		if re.MatchString(l) == f.has('v') {
			continue
		}
		n++
		if !f.has('q') && !f.has('c') {
			fmt.Fprintln(c.out, l)
		}
	}
	if f.has('c') {
		fmt.Fprintln(c.out, n)
	}
	if n == 0 {
		return 1
	}
	return 0
}
