# Receives one build. First line in: its SHA-256, the SHA-256 of its gzip file and
# the size of that. Answers "have N", the bytes of the gzip file that are already
# here, or "staged"; then takes the rest and answers "receive WORD": staged, short,
# corrupt, full, failed.
PATH=/usr/bin:/bin:/usr/sbin:/sbin LC_ALL=C
export PATH LC_ALL
answer() { printf "receive %s\n" "$1"; exit 0; }
sum() { set -- $(shasum -a 256 <"$1"); [ "$1" = "$want" ]; }
size() { [ ! -f "$1" ] && printf 0 || printf %d $(wc -c <"$1"); }
umask 077
IFS=" " read -r build packed bytes || answer failed
case $build$packed$bytes in "" | *[!0-9a-f]*) answer failed ;; esac
cd && mkdir -p .macfleet/staging && cd .macfleet/staging || answer failed
part=$packed.part
for file in *; do
  case $file in "$build" | "$part") ;; *) rm -f "./$file" ;; esac
done
want=$build
[ -f "$build" ] && sum "$build" && rm -f "$part" && answer staged
rm -f "$build"
[ "$(size "$part")" -gt "$bytes" ] && rm -f "$part"
printf "have %s\n" "$(size "$part")"
cat >>"$part" || answer full
[ "$(size "$part")" -lt "$bytes" ] && answer short
want=$packed
sum "$part" || { rm -f "$part"; answer corrupt; }
want=$build
gunzip -c <"$part" >"$build.new" || { rm -f "$build.new"; answer full; }
sum "$build.new" || { rm -f "$build.new" "$part"; answer corrupt; }
chmod 0700 "$build.new" && mv -f "$build.new" "$build" && rm -f "$part" || answer failed
answer staged
