// A long piece of work in several turns of the loop: what else waits there is taken up between
// them, and none of it waits longer than for one turn.
#ifndef COMMON_TURNS_H_
#define COMMON_TURNS_H_

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "common/event_loop.h"

namespace paceline {

// Describing so many ranks takes half a millisecond, as measured by `make bench NAME=load`.
inline constexpr int kPartsPerTurn = 256;

// Does `one` with each of the keys in their order, and `done` after the last. `one` returns how
// many parts its work had; a turn ends after kPartsPerTurn of them. The first turn is this call.
// Whatever a key stands for may have gone when its turn comes. On the loop.
template <typename Key>
void InTurns(EventLoop* loop, std::vector<Key> keys, std::function<int(const Key&)> one,
             EventLoop::Task done, size_t next = 0) {
  for (int parts = 0; parts < kPartsPerTurn && next < keys.size(); ++next) parts += one(keys[next]);
  if (next == keys.size()) return done();
  loop->Post([=, keys = std::move(keys)]() mutable {
    InTurns(loop, std::move(keys), std::move(one), std::move(done), next);
  });
}

}  // namespace paceline

#endif  // COMMON_TURNS_H_
