# Assignments stand ahead of this: macfleet_word, which begins each report; macfleet_outputs:
# one, or both outputs apart, or a pipe for the errors, or a terminal; macfleet_pipe, where
# that is, or nothing; macfleet_dir, the working directory, may be empty; macfleet_kills: the
# end of the command kills what is left of its group, unless it is empty; macfleet_argv, the
# command as shell words. Names are such that no variable of a command has them, and nothing
# of a command is an argument of this shell or the next: what looks for a process by its
# arguments, as pgrep -f does, would find these.
unset macfleet_run
# Agents up to v0.11.0 stall for good when output of one call comes on both.
case $macfleet_outputs in
one) exec 4>&1 ;;
pipe)
	# Another call reads it: whichever is first makes it. Nobody needs its name any more
	# once both have opened it.
	command -p mkfifo -m 600 "$macfleet_pipe" 2>/dev/null
	if [ -p "$macfleet_pipe" ]; then
		exec 4>"$macfleet_pipe"
		command -p rm -f "$macfleet_pipe"
	else
		exec 4>&1
	fi
	;;
*) exec 4>&2 ;;
esac
macfleet_refuse() {
	printf '%sx%s;' "$macfleet_word" "$1"
	exit 125
}
if [ -n "$macfleet_dir" ]; then cd -- "$macfleet_dir" 2>/dev/null || macfleet_refuse d; fi
eval "set -- $macfleet_argv"
macfleet_path=$1
case $1 in
*/*) [ -e "$1" ] || macfleet_refuse n ;;
*) macfleet_path=$(command -v -- "$1" 2>/dev/null) || macfleet_refuse n ;;
esac
case $macfleet_path in
*/*) if [ -d "$macfleet_path" ] || [ ! -x "$macfleet_path" ]; then macfleet_refuse p; fi ;;
esac
# What this shell says of a child that a signal ended is not the command's output.
exec 3>&1 2>/dev/null
# Agents kill this shell, and few of them the command too, when the command is given up, and
# may leave it a zombie for as long as the command holds its output: a watch looks at who the
# command's parent is. It must not end by a signal to the group of the command, which goes
# with this shell, nor be a child of the command: many programs wait for whatever children
# they have, and shells do in a trap. exec keeps the command's process number, and the
# foreground its signals.
macfleet_start='
	unset macfleet_start
	if command -v ps >/dev/null; then
		macfleet_parent() { ps -o ppid= -p "$$"; }
	else
		# The shell above is asked for first: it goes after the command, unless it was killed.
		macfleet_parent() {
			macfleet_seen=1
			if kill -0 "$macfleet_above"; then macfleet_seen=$macfleet_above; fi
			kill -0 "$$" && echo "$macfleet_seen"
		}
	fi
	macfleet_group=$$
	if [ "$macfleet_outputs" = terminal ]; then macfleet_group=$macfleet_above; fi
	if kill -s 0 -- "-$macfleet_group"; then macfleet_began=g$macfleet_group; else macfleet_began=p$$; fi
	macfleet_target=$$
	if [ "$macfleet_began" = "g$$" ]; then macfleet_target=-$$; fi
	trap "" HUP INT QUIT TERM TSTP USR1 USR2 ALRM
	(
		(
			while :; do
				macfleet_found=$(macfleet_parent)
				if [ "${macfleet_found:-0}" -eq 0 ]; then
					# The command has ended, which leaves its children alone, or a signal has
					# ended ps. A process that is taken away at this moment has the parent 0.
					kill -0 "$$" || exit
				elif [ "$macfleet_found" -ne "$macfleet_above" ]; then
					kill -s KILL -- "$macfleet_target"
					exit
				fi
				sleep 1
			done
		) </dev/null >/dev/null 2>&1 3>&- 4>&- &
	)
	trap - HUP INT QUIT TERM TSTP USR1 USR2 ALRM
	printf "%s%s;" "$macfleet_word" "$macfleet_began" >&3
	exec "$@" 2>&4 3>&- 4>&-
'
export macfleet_start="macfleet_word='$macfleet_word' macfleet_outputs=$macfleet_outputs macfleet_above=$$
set -- $macfleet_argv
$macfleet_start"
macfleet_inner='eval "$macfleet_start"'
# The command leads a process group of its own, for signals that are meant for all of it.
# On a terminal that is the group of this shell, which the signals of the terminal reach too:
# caught ones are the command's own again, ignored ones would not be.
macfleet_child=
if [ "$macfleet_outputs" = terminal ]; then
	trap : HUP INT QUIT TERM USR1 USR2 ALRM
	/bin/sh -c "$macfleet_inner"
elif [ -z "$macfleet_kills" ] && command -v setsid >/dev/null; then
	setsid /bin/sh -c "$macfleet_inner"
else
	# Job control alone tells this shell the number of a group that it is to kill.
	exec 5<&0
	set -m
	case $- in
	*m*)
		# In the background: one in the foreground that is stopped would count as ended.
		/bin/sh -c "$macfleet_inner" <&5 5<&- &
		macfleet_child=$!
		set +m
		wait "$macfleet_child"
		;;
	*) $(command -v setsid >/dev/null && echo setsid) /bin/sh -c "$macfleet_inner" 5<&- ;;
	esac
fi
macfleet_code=$?
# Before anybody knows of the end: the number of a group that is gone may be given to another.
if [ -n "$macfleet_kills" ] && [ -n "$macfleet_child" ]; then kill -s KILL -- "-$macfleet_child"; fi
# The end of the command, which is not that of the call: its children may hold the
# outputs, and agents after v0.11.0 tell of input that it left instead of its code.
printf '%s%d;' "$macfleet_word" "$macfleet_code" >&3
case $macfleet_outputs in both | pipe) printf '%s%d;' "$macfleet_word" "$macfleet_code" >&4 ;; esac
exit "$macfleet_code"
