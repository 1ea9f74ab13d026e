package shims

import (
	"fmt"
	"strings"
)

// flags are the options a shim was given, by letter.
type flags map[byte]string

func (f flags) has(letter byte) bool {
	_, ok := f[letter]
	return ok
}

// parse reads options in the manner of getopt(3): letters in plain take no
// value, letters in valued take one. Anything else makes the shim fail.
func (c *call) parse(plain, valued string) (flags, []string, bool) {
	f := flags{}
	args := c.args
	for len(args) > 0 {
		a := args[0]
		if a == "--" {
			args = args[1:]
			break
		}
		if len(a) < 2 || a[0] != '-' {
			break
		}
		args = args[1:]
		for i := 1; i < len(a); i++ {
			letter := a[i]
			switch {
			case strings.IndexByte(plain, letter) >= 0:
				f[letter] = ""
				continue
			case strings.IndexByte(valued, letter) < 0:
				c.unmodelled("option " + a)
				return nil, nil, false
			case i+1 < len(a):
				f[letter] = a[i+1:]
			case len(args) > 0:
				f[letter], args = args[0], args[1:]
			default:
				c.errorf("option requires an argument -- %c", letter)
				c.reason = fmt.Sprintf("option -%c without a value", letter)
				return nil, nil, false
			}
			break
		}
	}
	return f, args, true
}
