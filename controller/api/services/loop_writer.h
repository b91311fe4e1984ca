// A server-side response stream controlled by the event loop. The loop decides what is sent and
// when the stream ends, but another thread writes it: gRPC writes to the socket on the calling
// thread, and writing to a hundred watchers would hold up everything else.
//
//   loop:             Send ──▶ queue              Written, Ready
//   sender:                      ╰──▶ a write          ▲
//   gRPC's threads:                      ╰──▶ further writes, while there are
//
// The owner derives from it and overrides Ready and Gone. The stream deletes itself after Gone, so
// no pointer to it may be used after that. The queue is short: nothing piles up for a slow reader,
// and a reader that does not take a message within the patience of CallLimits loses its stream.
//
// Runs on the loop, except for gRPC's callbacks and for writes.
#ifndef CONTROLLER_API_SERVICES_LOOP_WRITER_H_
#define CONTROLLER_API_SERVICES_LOOP_WRITER_H_

#include <grpcpp/support/server_callback.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/event_loop.h"
#include "controller/api/admission/call_limits.h"
#include "controller/api/services/sender.h"

namespace paceline {

template <typename Response>
class LoopWriter : public grpc::ServerWriteReactor<Response> {
 public:
  // The pointers outlive the stream. `most` messages may be on their way at a time.
  LoopWriter(EventLoop* loop, Sender* sender, std::unique_ptr<CallLimits::Stream> counted,
             int most = 1)
      : loop_(loop), sender_(sender), counted_(std::move(counted)), most_(most) {}

  // Must be called first. Returns false, and ends the stream, if too many streams are open or its
  // request is too large.
  bool Admit() {
    if (counted_->refusal().ok()) return true;
    Close(counted_->refusal());
    return false;
  }

  // Whether Send may be called.
  bool has_room() const { return on_their_way_ < most_ && !closing_; }

  // Requires: has_room().
  void Send(Response response) ABSL_LOCKS_EXCLUDED(mutex_) {
    ++on_their_way_;
    bool begins = false;
    {
      absl::MutexLock lock(&mutex_);
      queue_.push_back(std::move(response));
      begins = !std::exchange(writing_, true);
    }
    if (begins) sender_->Post([this] { WriteNext(); });
    if (timer_ == 0) Watch();
  }

  // Ends the stream once everything sent is out. Later calls do nothing.
  void Close(grpc::Status status) {
    if (closing_) return;
    closing_ = true;
    status_ = std::move(status);
    if (on_their_way_ == 0) this->Finish(status_);
  }

 protected:
  EventLoop* loop() const { return loop_; }
  const std::string& caller() const { return counted_->caller(); }

  // Called when some of what was sent is out, so that there is room.
  virtual void Ready() = 0;
  // Called last, when the stream has ended by Close or by the client.
  virtual void Gone() = 0;

 private:
  // Requires: the queue is not empty, and nothing is being written.
  void WriteNext() ABSL_LOCKS_EXCLUDED(mutex_) {
    grpc::WriteOptions options;
    {
      absl::MutexLock lock(&mutex_);
      current_ = std::move(queue_.front());
      queue_.pop_front();
      // Messages that follow directly go to the socket together. Not the first message: gRPC would
      // hold it back with the call's headers, and never report it written.
      if (written_ > 0 && !queue_.empty()) options.set_buffer_hint();
    }
    this->StartWrite(&current_, options);
  }

  void OnWriteDone(bool ok) override ABSL_LOCKS_EXCLUDED(mutex_) {
    bool more = false;
    int out = 0;
    {
      absl::MutexLock lock(&mutex_);
      ++written_;
      ++unreported_;
      if (!ok) {
        unreported_ += static_cast<int>(queue_.size());
        queue_.clear();
      }
      more = writing_ = !queue_.empty();
      if (!more || unreported_ >= std::max(1, most_ / 2)) out = std::exchange(unreported_, 0);
    }
    if (more) WriteNext();
    if (out > 0) {
      loop_->Post([this, out, ok] { Written(out, ok); });
    }
  }

  // `out` messages are out, or were given up with the stream.
  void Written(int out, bool ok) {
    on_their_way_ -= out;
    if (!ok && !std::exchange(closing_, true)) status_ = grpc::Status::CANCELLED;
    if (!closing_) return Ready();
    if (on_their_way_ == 0) this->Finish(status_);
  }

  void OnCancel() override {
    loop_->Post([this] { Close(grpc::Status::CANCELLED); });
  }

  // gRPC calls this after all others.
  void OnDone() override {
    loop_->Post([this] {
      if (timer_ != 0) loop_->Cancel(timer_);
      Gone();
      delete this;
    });
  }

  // Checks after the patience whether the same message still waits. If so the call still exists: it
  // is finished on the loop, and only when nothing is on its way.
  void Watch() {
    timer_ = loop_->After(counted_->patience(), [this, seen = written()] {
      timer_ = 0;
      if (on_their_way_ == 0) return;
      if (written() == seen) return counted_->Abort();
      Watch();
    });
  }

  int64_t written() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return written_;
  }

  EventLoop* const loop_;
  Sender* const sender_;
  const std::unique_ptr<CallLimits::Stream> counted_;
  const int most_;

  // On the loop.
  int on_their_way_ = 0;          // Sent, but not yet known here to be out.
  EventLoop::TimerId timer_ = 0;  // 0: nothing is watched.
  bool closing_ = false;
  grpc::Status status_;

  mutable absl::Mutex mutex_;
  std::deque<Response> queue_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t written_ ABSL_GUARDED_BY(mutex_) = 0;
  int unreported_ ABSL_GUARDED_BY(mutex_) = 0;  // Out, but the loop does not know yet.

  Response current_;  // Owned by the writing thread.
};

}  // namespace paceline

#endif  // CONTROLLER_API_SERVICES_LOOP_WRITER_H_
