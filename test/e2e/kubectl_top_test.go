package e2e

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// showsUsage has metrics-server tell what a busy Pod and its Mac use: it reads the Mac as
// it reads any Node, by rights of its own.
func (f *fleet) showsUsage(node string) {
	got := f.try(nil, "exec", "look", "--", "/bin/sh", "-c", "(while :; do :; done) </dev/null >/dev/null 2>&1 & echo $!")
	if got.code != 0 {
		f.Fatalf("being busy: %+v", got)
	}
	defer f.try(nil, "exec", "look", "--", "kill", strings.TrimSpace(got.out))
	// One loop takes a core at most; how much of it, the machine's other work decides. At
	// rest the Pod takes a few thousandths.
	const busy, core = 40, 1200
	f.await("the usage of a busy Pod", func() (string, bool) {
		got := f.try(nil, "top", "pod", "look", "--no-headers")
		millicores, mebibytes := usageIn(got.out, "look")
		return fmt.Sprintf("%+v", got), millicores >= busy && millicores <= core && mebibytes > 0
	})
	for _, what := range []struct{ args, names []string }{
		{[]string{"top", "pod", "look", "--containers"}, []string{"look", "macos"}},
		{[]string{"top", "node", node}, []string{node}},
	} {
		// metrics-server reads again and again; a reading may lack a Node, or hold less.
		f.await(fmt.Sprintf("the usage by %q", what.args), func() (string, bool) {
			got := f.try(nil, append(what.args, "--no-headers")...)
			millicores, mebibytes := usageIn(got.out, what.names...)
			return fmt.Sprintf("%+v", got), millicores >= busy && mebibytes > 0
		})
	}
}

// usageIn reads the one line that kubectl top prints, which begins with those names.
func usageIn(line string, names ...string) (millicores, mebibytes int) {
	fields := strings.Fields(line)
	if strings.Count(line, "\n") != 1 || !slices.Equal(fields[:min(len(names), len(fields))], names) {
		return 0, 0
	}
	for _, field := range fields[len(names):] {
		number := strings.TrimRight(field, "mMi%")
		n, err := strconv.Atoi(number)
		switch {
		case err != nil:
			return 0, 0
		case field == number+"m":
			millicores = n
		case field == number+"Mi":
			mebibytes = n
		}
	}
	return millicores, mebibytes
}
