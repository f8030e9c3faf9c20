#!/bin/sh
# Put the report on the pull request: one comment, changed at each push, and none where all was identical from the start.
#   REPOSITORY=owner/name PULL_REQUEST=7 comment.sh OUT EXIT_CODE
# A token that may not write (a pull request from a fork) is a warning: the verdict is that of the replay.
set -u
comments=repos/$REPOSITORY/issues/$PULL_REQUEST/comments
id=$(gh api --paginate "$comments" --jq '.[] | select(.body | startswith("<!-- freezeframe -->")) | .id' | head -n 1)
if [ -n "$id" ]; then
  gh api --silent -X PATCH "repos/$REPOSITORY/issues/comments/$id" -F "body=@$1/report.md"
elif [ "$2" != 0 ]; then
  gh api --silent "$comments" -F "body=@$1/report.md"
fi || echo "::warning::freezeframe: the report could not be put on the pull request; it is in the job's summary"
