package volume

import (
	"path"
	"strings"
)

// NeverMounted is the exit code of a setup script where no other attempt at a fresh clone
// of the image would come further: something is in the way, or macOS seals the place.
const NeverMounted = 3

// prologue has the functions of a setup script. Commands are tried as the guest
// agent's user first, then by sudo, which asks nothing. Guests see their shares a
// moment after they are up, so that it waits for each source.
const prologue = `set -u
sealed() {
	case $2 in
	*[Rr]ead-only*) fail "mount path $1: $2; macOS seals it: mount below /Users, /private, /opt or /Volumes" ;;
	*) fail "mount path $1: $2" ;;
	esac
}
fail() { printf '%s\n' "$1" >&2; exit 3; }
unseen() { printf '%s\n' "$1" >&2; exit 1; }
try() {
	"$@" 2>/dev/null && return 0
	[ "$(id -u)" = 0 ] && { "$@"; return; }
	sudo -n "$@"
}
link() {
	src=$1 dst=$2 n=0
	until [ -e "$src" ]; do
		n=$((n+1))
		[ "$n" -gt 30 ] && unseen "the guest does not see $src, which $dst should lead to"
		sleep 1
	done
	if [ -L "$dst" ]; then
		old=$(readlink "$dst")
		[ "$old" = "$src" ] && return 0
		case $old in
		"` + guestShares + `/macfleet"*) why=$(try rm -f "$dst" 2>&1) || fail "mount path $dst: $why" ;;
		*) fail "mount path $dst is a link to $old, which is not replaced" ;;
		esac
	elif [ -d "$dst" ]; then
		try rmdir "$dst" >/dev/null 2>&1 || fail "mount path $dst is a directory that is not empty, which is not replaced"
	elif [ -e "$dst" ]; then
		fail "mount path $dst is a file, which is not replaced"
	fi
	dir=${dst%/*}
	if [ -n "$dir" ] && [ ! -d "$dir" ]; then
		why=$(try mkdir -p "$dir" 2>&1) || sealed "$dst" "$why"
	fi
	why=$(try ln -s "$src" "$dst" 2>&1) || sealed "$dst" "$why"
}
message() {
	[ -e "$1" ] || [ -L "$1" ] || try ln -s "/private/tmp/${1##*/}" "$1" 2>/dev/null || :
}
`

// devices is where macOS lets root make links, and nobody files.
const devices = "/dev"

// messageScript has paths of termination messages that lie where nobody can make a file,
// as the API's default does, lead to where all can. It is empty when there are none, and
// never fails: what runs in the guest may have no message.
func messageScript(paths []string) string {
	var script strings.Builder
	for _, p := range paths {
		if path.Dir(p) == devices && path.Clean(p) == p {
			script.WriteString("message " + quoted(p) + "\n")
		}
	}
	return script.String()
}

// SetupScript is what /bin/sh runs in the guest to make the links, and those that paths of
// termination messages need; it is empty when there is nothing to make. It may be run again.
// It replaces links of ours and empty directories only, and says on one line of stderr which
// path it could not make. It holds paths and nothing else of a Pod.
func SetupScript(links []Link, messagePaths []string) string {
	messages := messageScript(messagePaths)
	if len(links) == 0 && messages == "" {
		return ""
	}
	var script strings.Builder
	script.WriteString(prologue)
	script.WriteString(messages)
	for _, l := range links {
		script.WriteString("link " + quoted(l.Source) + " " + quoted(l.MountPath) + "\n")
	}
	return script.String()
}

// quoted is one word of a shell. All paths are absolute, so that none is taken for
// an option.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
