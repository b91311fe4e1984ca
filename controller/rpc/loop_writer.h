// A server-side response stream that lives on the event loop: gRPC's callbacks, which come
// on its own threads, are turned into calls on the loop.
//
// The owner derives from it and overrides Ready and Gone; it must keep no pointer to the
// stream after Gone has run, since the stream deletes itself after it. Nothing piles up for a
// reader that is slow; one that does not take a message within the patience of CallLimits loses
// its stream.
//
// Runs on the loop, except for gRPC's own callbacks.
#ifndef CONTROLLER_RPC_LOOP_WRITER_H_
#define CONTROLLER_RPC_LOOP_WRITER_H_

#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "common/event_loop.h"
#include "controller/rpc/call_limits.h"

namespace paceline {

template <typename Response>
class LoopWriter : public grpc::ServerWriteReactor<Response> {
 public:
  LoopWriter(EventLoop* loop, std::unique_ptr<CallLimits::Stream> counted)
      : loop_(loop), counted_(std::move(counted)) {}

  // To be asked first of all. False: too many streams are open, and this one ends.
  bool Admit() {
    if (counted_->refusal().ok()) return true;
    Close(counted_->refusal());
    return false;
  }

  // Whether Send may be called now.
  bool idle() const { return !writing_ && !closing_; }

  // Requires: idle().
  void Send(Response response) {
    writing_ = true;
    ++writes_;
    if (timer_ == 0) Watch();
    current_ = std::move(response);
    this->StartWrite(&current_);
  }

  // Ends the stream once what is being sent is out. Later calls change nothing.
  void Close(grpc::Status status) {
    if (closing_) return;
    closing_ = true;
    status_ = std::move(status);
    if (!writing_) this->Finish(status_);
  }

 protected:
  EventLoop* loop() const { return loop_; }

  // The last Send is out: the stream is idle again.
  virtual void Ready() = 0;
  // The stream has ended, by Close or by the client; the last call.
  virtual void Gone() = 0;

 private:
  void OnWriteDone(bool ok) override {
    loop_->Post([this, ok] {
      writing_ = false;
      if (closing_) {
        this->Finish(status_);
      } else if (!ok) {
        Close(grpc::Status::CANCELLED);
      } else {
        Ready();
      }
    });
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

  // Looks after the patience whether the same message still waits. Then the call is still there:
  // it is finished only when nothing is being written.
  void Watch() {
    timer_ = loop_->After(counted_->patience(), [this, seen = writes_] {
      timer_ = 0;
      if (!writing_) return;
      if (writes_ == seen) return counted_->Abort();
      Watch();
    });
  }

  EventLoop* const loop_;
  const std::unique_ptr<CallLimits::Stream> counted_;

  // On the loop.
  EventLoop::TimerId timer_ = 0;  // 0: nothing is watched.
  int64_t writes_ = 0;
  bool writing_ = false;
  bool closing_ = false;
  grpc::Status status_;
  Response current_;
};

}  // namespace paceline

#endif  // CONTROLLER_RPC_LOOP_WRITER_H_
