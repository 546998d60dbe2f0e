# announce.sh WORDS: write them to the terminal; without one to the errors of the pip that started this build, if there is one.
(printf '\n  qkv: %s\n' "$1" > /dev/tty) 2> /dev/null && exit
process=$PPID
while [ "$process" -gt 1 ] && [ -r "/proc/$process/status" ]; do
  if tr '\0' ' ' < "/proc/$process/cmdline" | grep -Eq 'pip[0-9.]*( -[^ ]+)* (install|wheel) '; then
    printf '\n  qkv: %s\n' "$1" >> "/proc/$process/fd/2"
    exit
  fi
  process=$(awk '/^PPid:/ { print $2 }' "/proc/$process/status")
done
