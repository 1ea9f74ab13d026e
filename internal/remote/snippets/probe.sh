# Says what this Mac is: one "label value" a line. Reads nothing, changes nothing.
PATH=/usr/bin:/bin:/usr/sbin:/sbin LC_ALL=C
export PATH LC_ALL
exec </dev/null 2>/dev/null
say() { printf "%s %s\n" "$1" "$2"; }
say probe 1
say os "$(sw_vers -productVersion)"
say build "$(sw_vers -buildVersion)"
say arch "$(uname -m)"
for name in hw.model hw.memsize hw.ncpu kern.bootsessionuuid kern.hv_vmm_present; do
  say "$name" "$(sysctl -n "$name")"
done
ioreg -rd1 -c IOPlatformExpertDevice | while IFS= read -r line; do
  case $line in *IOPlatformSerialNumber* | *IOPlatformUUID*) say ioreg "$line" ;; esac
done
disk=$(df -k /System/Volumes/Data) || disk=$(df -k /)
say disk "${disk##*
}"
say filevault "$(echo $(fdesetup status))" # in one line
say console "$(stat -f %Su /dev/console)"
say user "$(id -un)"
say client "${SSH_CONNECTION%% *}"
current=$(cd -P /usr/local/libexec/macfleet/current && pwd -P) && say current "$current"
for slot in /usr/local/libexec/macfleet/*/tart-kubelet; do
  [ -f "$slot" ] && say slot "$slot"
done
cd && for file in .macfleet/staging/*; do
  [ -f "$file" ] && say staged "$(wc -c <"$file") $file"
done
if sudo -n true; then
  say sudo yes
  say journal "$(sudo -n cat /var/db/macfleet/journal.json)"
elif [ "$current" ]; then
  # Listing what sudo allows does not say whether it asks. The agent plans nothing
  # without a document, and says so by 64: usage.
  sudo -n /usr/local/libexec/macfleet/current/tart-kubelet converge --plan >/dev/null
  [ $? -eq 64 ] && say sudo agent
fi
say end 1
