// Long pieces of work on the loop, one after the other, each in several turns: what else waits for
// the loop is taken up between them, and none of it waits longer than for one turn. Since one piece
// is worked on at a time, what they make does not pile up either, however many are asked for.
//
// Runs on the loop, which outlives it.
#ifndef COMMON_TURNS_H_
#define COMMON_TURNS_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "common/event_loop.h"

namespace paceline {

// Describing so many ranks takes half a millisecond, as measured by `make bench NAME=load`.
inline constexpr int kPartsPerTurn = 256;

class Turns {
 public:
  explicit Turns(EventLoop* loop) : loop_(loop) {}
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  // Does `one` with each of the keys in their order, and `done` after the last. `one` returns how
  // many parts its work had; a turn ends after kPartsPerTurn of them. The first turn is this call,
  // if no other piece is in line. Whatever a key stands for may have gone when its turn comes.
  template <typename Key>
  void Add(std::vector<Key> keys, std::function<int(const Key&)> one, EventLoop::Task done) {
    line_.push_back([keys = std::move(keys), one = std::move(one), done = std::move(done),
                     next = size_t{0}]() mutable {
      for (int parts = 0; parts < kPartsPerTurn && next < keys.size(); ++next) {
        parts += one(keys[next]);
      }
      if (next < keys.size()) return false;
      done();
      return true;
    });
    if (line_.size() == 1) Turn();
  }

 private:
  void Turn() {
    if (line_.front()()) line_.pop_front();
    if (!line_.empty()) loop_->Post([this] { Turn(); });
  }

  EventLoop* const loop_;
  std::deque<std::function<bool()>> line_;  // Each does a turn; true: that was the last.
};

}  // namespace paceline

#endif  // COMMON_TURNS_H_
