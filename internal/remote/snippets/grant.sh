# Reads one line, the password, spends at most one verification on it, and makes
# root the text in $1, which lets this user become root without a password.
# Answers "grant WORD": granted, rejected, locked, overridden, failed, empty.
PATH=/usr/bin:/bin:/usr/sbin:/sbin LC_ALL=C
export PATH LC_ALL
answer() { printf "grant %s\n" "$1"; exit 0; }
IFS= read -r password || [ -n "$password" ] || answer empty
[ -n "$password" ] || answer empty
# The shell itself prints the password: no process ever has it as an argument.
# Then the pipe ends, so that sudo cannot ask for another.
said=$(printf "%s\n" "$password" | sudo -S -k -p "" /bin/sh -c "$1" macfleet "$(id -un)" 2>&1)
unset password
case $said in
*macfleet-installed*) sudo -n true </dev/null 2>/dev/null && answer granted; answer overridden ;;
*macfleet-root*) answer failed ;;
*locked* | *[Aa]ccount*) answer locked ;;
*incorrect* | *"try again"*) answer rejected ;;
esac
answer failed
