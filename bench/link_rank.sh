#!/bin/sh
# Starts $LINKED_TRAINER in the network of its rank (links.py): with a trainer's arguments, of which
# the first is --dir FOLDER, whose name ends in ".RANK".
exec nsenter --net="/run/netns/rank${2##*.}" "$LINKED_TRAINER" "$@"
