# $1: the word that begins each report; $2: yes when variables come on the standard
# input; $3: one, or both outputs apart, or a terminal; $4: working directory, may be empty;
# then the command. Names are such that no variable of a command has them.
macfleet_word=$1 macfleet_headed=$2 macfleet_outputs=$3 macfleet_dir=$4
shift 4
macfleet_refuse() {
	printf '%sx;' "$macfleet_word"
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
macfleet_path=$(command -v -- "$1" 2>/dev/null) || macfleet_refuse
case $macfleet_path in
*/*) if [ -d "$macfleet_path" ] || [ ! -x "$macfleet_path" ]; then macfleet_refuse; fi ;;
esac
# What this shell says of a child that a signal ended is not the command's output.
exec 3>&1 4>&2 2>/dev/null
# Agents up to v0.11.0 stall for good when output comes on both.
if [ "$macfleet_outputs" = one ]; then exec 4>&1; fi
# Agents kill this shell, and few of them the command too, when the command is given up, and
# may leave it a zombie for as long as the command holds its output: a watch looks at who the
# command's parent is. It must not end by a signal to the group of the command, which goes
# with this shell, nor be a child of the command: many programs wait for whatever children
# they have, and shells do in a trap. exec keeps the command's process number, and the
# foreground its signals.
macfleet_start='
	outputs=$1 word=$2
	shift 2
	if command -v ps >/dev/null; then
		parent() { ps -o ppid= -p "$$"; }
	else
		parent() { kill -0 "$0" && echo "$0" || echo 0; }
	fi
	group=$$
	if [ "$outputs" = terminal ]; then group=$0; fi
	if kill -s 0 -- "-$group"; then began=g$group; else began=p$$; fi
	target=$$
	if [ "$began" = "g$$" ]; then target=-$$; fi
	trap "" HUP INT QUIT TERM TSTP USR1 USR2 ALRM
	(
		(
			while :; do
				found=$(parent)
				if [ -z "$found" ]; then
					# The command has ended, or a signal has ended ps.
					kill -0 "$$" || exit
				elif [ "$found" -ne "$0" ]; then
					kill -s KILL -- "$target"
					exit
				fi
				sleep 1
			done
		) </dev/null >/dev/null 2>&1 3>&- 4>&- &
	)
	trap - HUP INT QUIT TERM TSTP USR1 USR2 ALRM
	printf "%s%s;" "$word" "$began" >&3
	exec "$@" 2>&4 3>&- 4>&-
'
set -- "$macfleet_start" "$$" "$macfleet_outputs" "$macfleet_word" "$@"
# The command leads a process group of its own, for signals that are meant for all of it.
# On a terminal that is the group of this shell, which the signals of the terminal reach too:
# caught ones are the command's own again, ignored ones would not be.
if [ "$macfleet_outputs" = terminal ]; then
	trap : HUP INT QUIT TERM USR1 USR2 ALRM
	/bin/sh -c "$@"
elif command -v setsid >/dev/null; then
	setsid /bin/sh -c "$@"
else
	exec 5<&0
	set -m
	case $- in
	*m*)
		# In the background: one in the foreground that is stopped would count as ended.
		/bin/sh -c "$@" <&5 5<&- &
		macfleet_child=$!
		set +m
		wait "$macfleet_child"
		;;
	*) /bin/sh -c "$@" 5<&- ;;
	esac
fi
macfleet_code=$?
# The end of the command, which is not that of the call: its children may hold the
# outputs, and agents after v0.11.0 tell of input that it left instead of its code.
printf '%s%d;' "$macfleet_word" "$macfleet_code" >&3
if [ "$macfleet_outputs" = both ]; then printf '%s%d;' "$macfleet_word" "$macfleet_code" >&4; fi
exit "$macfleet_code"
