package guest

import (
	"os"
	"path/filepath"
)

// tools is where the commands are kept that a guest has in place of its host's.
const tools = ".tools"

// askedFile names the process that asked for the shutdown.
const askedFile = "/private/var/run/shutdown.pid"

// sudo never asks for a password: the account of the goldens may do everything, and is
// root here already.
const sudo = `#!/bin/sh
while :; do
	case "$1" in
	-n | -E | -H | -S | -i | -s) shift ;;
	-u | -g) shift 2 ;;
	--) shift; break ;;
	-*) echo "sudo: not modelled: $1" >&2; exit 64 ;;
	*) break ;;
	esac
done
exec "$@"
`

// shutdown asks pid 1, and answers before the system goes down: that waits for the
// process named in askedFile.
const shutdown = `#!/bin/sh
case "${0##*/}" in
halt) set -- -h now ;;
esac
if [ "$1" != -h ] || [ "$2" != now ]; then
	echo "shutdown: not modelled: $*" >&2
	exit 64
fi
echo "Shutdown NOW!"
echo $$ >` + askedFile + `
kill -TERM 1
`

// kill is a program on macOS, and not on every host.
const kill = `#!/bin/sh
kill "$@"
`

// swVers tells what system a golden has, in the words of macOS 26.
const swVers = `#!/bin/sh
name=macOS version=26.0 build=25A354
case "$#$1" in
0) printf 'ProductName:\t\t%s\nProductVersion:\t\t%s\nBuildVersion:\t\t%s\n' "$name" "$version" "$build" ;;
1-productName | 1--productName) echo "$name" ;;
1-productVersion | 1--productVersion) echo "$version" ;;
1-buildVersion | 1--buildVersion) echo "$build" ;;
*)
	echo "sw_vers: not modelled: $*" >&2
	exit 64
	;;
esac
`

// writeTools makes a tree to lay over the host's. A kill of its own is no program
// everywhere, so the shell's is used.
func writeTools(dir string) error {
	files := map[string]string{"usr/bin/sudo": sudo, "usr/bin/kill": kill, "bin/kill": kill, "usr/bin/sw_vers": swVers}
	for _, name := range []string{"shutdown", "halt"} {
		files["sbin/"+name] = shutdown
	}
	for name, script := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
			return err
		}
	}
	return nil
}
