# Runs as root. Lets user $1 become root without a password, by a drop-in that
# visudo accepts and that appears whole. Whatever is left on stdin is not ours.
exec </dev/null
printf "macfleet-root\n"
umask 077
case $1 in "" | *[!A-Za-z0-9_-]*) exit 1 ;; esac
new=/etc/macfleet-sudoers.new
rm -f "$new" && mkdir -p /etc/sudoers.d || exit 1
printf "%s ALL=(ALL) NOPASSWD: ALL\n" "$1" >"$new" || exit 1
if chown root:wheel "$new" && chmod 0440 "$new" && visudo -cf "$new" >/dev/null 2>&1 &&
  mv -f "$new" "/etc/sudoers.d/$1-nopasswd"; then
  printf "macfleet-installed\n"
  exit 0
fi
rm -f "$new"
exit 1
