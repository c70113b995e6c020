# The consumer's own program: it cannot show a ticket without a summary.
if grep -q '"summary": *""'; then
  echo "no summary" >&2
  exit 3
fi
