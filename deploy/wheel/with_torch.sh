#!/bin/sh
# Starts the program of this name in torch/ with the libraries of the user's own torch. It checks
# torch's version first, because the program would crash with another version.
made_for=@TORCH@
name=${0##*/}
here=${0%/*}
site=$here/../..

# The torch of the environment of this script, else the one that python3 imports.
torch=$site/torch
if [ ! -e "$torch/version.py" ]; then
  python=$site/../../../bin/python3
  [ -x "$python" ] || python=python3
  torch=$("$python" -c 'from importlib.util import find_spec
print(find_spec("torch").submodule_search_locations[0])' 2>/dev/null)
fi

refuse() {
  echo "$name is made for torch $made_for, $1: pip install 'torch==$made_for.*'" >&2
  exit 2
}

[ -e "$torch/version.py" ] || refuse 'and there is none'
while read -r key _ value; do
  [ "$key" != __version__ ] || break
done <"$torch/version.py"
case $value in
  "'$made_for."*) ;;
  *) refuse "and here is $value ($torch)" ;;
esac
libraries=$torch/lib
case $name in
  *-cuda)
    runtime=$torch/../nvidia/cu13/lib
    if [ ! -e "$torch/lib/libtorch_cuda.so" ] || [ ! -e "$runtime/libcudart.so.13" ]; then
      refuse "with CUDA 13, and here is $value ($torch)"
    fi
    libraries=$libraries:$runtime
    ;;
esac
LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
exec "$here/torch/$name" "$@"
