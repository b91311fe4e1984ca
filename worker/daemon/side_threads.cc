#include "worker/daemon/side_threads.h"

#include <utility>

namespace paceline {

SideThreads::~SideThreads() {
  stop_ = true;
  for (auto& [number, thread] : threads_) thread.join();
}

void SideThreads::Run(Work work, std::function<void()> done) {
  loop_.CheckOnLoop();
  const int64_t number = ++last_;
  threads_[number] = std::thread([this, number, work = std::move(work), done = std::move(done)] {
    work(stop_);
    loop_.Post([this, number, done] {
      const auto ended = threads_.find(number);
      ended->second.join();
      threads_.erase(ended);
      done();
    });
  });
}

}  // namespace paceline
