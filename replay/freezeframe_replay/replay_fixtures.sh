#!/bin/sh
# Replay each fixture below a folder: OUT/report.md says what became of each, with the first divergence in full, and OUT/NAME.ffz
# holds each run that diverged with the code that it diverged with.
#   sh replay_fixtures.sh FOLDER OUT [OPTION of `freezeframe replay` ...]
# deploy/action/action.yml and deploy/gitlab-ci.yml run it.
# Exit code: 0 all are identical; 3 one diverged; 125 one could not be compared; 1 there is none, or one is damaged.
set -u
folder=$1
out=$2
shift 2
mkdir -p "$out"
: >"$out/lines"
: >"$out/first"
worst=0
count=0
# `?` stands for a space of a path, so that the path stays one word and is found again
for manifest in $(find "$folder" -name manifest.json -exec grep -l '"freezeframe-fixture"' {} + | sort | tr ' ' '?'); do
  fixture=${manifest%/manifest.json}
  name=$(echo "${fixture#"$folder"/}" | tr / -)
  count=$((count + 1))
  freezeframe replay "$fixture" "$@" >"$out/text" 2>&1 </dev/null
  code=$?
  cat "$out/text"
  case $code in
    0) said=identical ;;
    3) said=diverged ;;
    125) said="could not be compared" ;;
    *) said="could not be replayed" ;;
  esac
  echo "- $name: $said" >>"$out/lines"
  [ $code -eq 0 ] && continue
  [ -s "$out/first" ] || sed 's/^/    /' "$out/text" | head -n 80 | cut -c -2000 >"$out/first" # indented, no text can end the block
  freezeframe export "$fixture" --as pack -o "$out/$name.ffz" --code now </dev/null || true # refuses what was never redacted
  case "$worst $code" in "0 "* | "3 125" | "3 1" | "125 1") worst=$code ;; esac
done
{
  echo "<!-- freezeframe -->"
  if [ $count -eq 0 ]; then
    echo "**freezeframe**: no fixture below $folder"
  else
    echo "**freezeframe** replayed the recorded runs: $(grep -c ': identical$' "$out/lines") of $count identical"
    echo
    cat "$out/lines"
  fi
  [ -s "$out/first" ] && printf '\nThe first that is not:\n\n' && cat "$out/first"
} >"$out/report.md"
rm -f "$out/lines" "$out/first" "$out/text"
[ $count -gt 0 ] || worst=1
exit $worst
