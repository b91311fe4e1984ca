// Divides long pieces of work on the loop into turns, one piece at a time, so that other tasks run
// between turns and wait for one turn at most. However many pieces are requested, the results of
// only one can pile up.
//
// Runs on the loop, which must outlive it.
#ifndef COMMON_TURNS_H_
#define COMMON_TURNS_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "common/event_loop.h"

namespace paceline {

// Describing this many ranks takes half a millisecond (`make bench NAME=load`).
inline constexpr int kPartsPerTurn = 256;

class Turns {
 public:
  explicit Turns(EventLoop* loop) : loop_(loop) {}
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  // Calls `one` with each key in order, then `done`. `one` returns how many parts its work had; a
  // turn ends after kPartsPerTurn parts. If no other piece is queued, the first turn runs in this
  // call. What a key stands for may be gone when its turn comes.
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
  std::deque<std::function<bool()>> line_;  // Each makes a turn; true: it was the last.
};

}  // namespace paceline

#endif  // COMMON_TURNS_H_
