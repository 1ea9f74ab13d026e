# $1: the word that says the command cannot start; $2: yes when variables come on the
# standard input; $3: working directory, may be empty; then the command. Names are such
# that no variable of a command has them.
macfleet_word=$1 macfleet_headed=$2 macfleet_dir=$3
shift 3
macfleet_refuse() {
	printf '%s\n' "$macfleet_word" >&2
	exit 125
}
if [ "$macfleet_headed" = yes ]; then
	# read takes no byte more than the line: the rest is the command's.
	while IFS= read -r macfleet_name && [ -n "$macfleet_name" ]; do
		IFS= read -r macfleet_value || macfleet_refuse
		macfleet_value=$(printf '%b.' "$macfleet_value")
		export "$macfleet_name=${macfleet_value%.}"
	done
fi
if [ -n "$macfleet_dir" ]; then cd -- "$macfleet_dir" 2>/dev/null || macfleet_refuse; fi
command -v -- "$1" >/dev/null 2>&1 || macfleet_refuse
# A signal from the terminal is for the command. Caught ones are its own again, ignored
# ones would not be.
trap : INT QUIT
# What this shell says of a child that a signal ended is not the command's output.
# The command writes to one stream: agents up to v0.11.0 stall for good when output
# comes on both.
exec 3>&1 2>/dev/null
# The agent kills this shell alone when the command is given up, and may leave it a zombie
# for as long as the command holds its output: the watch looks at who the command's
# parent is. exec keeps its process number, and the foreground its signals.
/bin/sh -c '
	if command -v ps >/dev/null; then
		parent() { ps -o ppid= -p "$$"; }
	else
		parent() { kill -0 "$0" && echo "$0" || echo 0; }
	fi
	(
		while found=$(parent) && [ "$found" -eq "$0" ]; do sleep 1; done
		# Nothing is found when the command has ended.
		if [ -n "$found" ]; then kill -9 "$$"; fi
	) </dev/null >/dev/null 2>&1 3>&- &
	exec "$@" 2>&3 3>&-
' "$$" "$@"
exit $?
