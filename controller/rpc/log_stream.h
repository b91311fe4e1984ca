// One reader's stream of one rank's log: asks the rank's node for part after part, the next
// only when the reader has taken the last, so nothing piles up here.
//
// Runs on the loop.
#ifndef CONTROLLER_RPC_LOG_STREAM_H_
#define CONTROLLER_RPC_LOG_STREAM_H_

#include <set>
#include <utility>

#include "controller/rpc/errors.h"
#include "controller/rpc/job_service.h"
#include "controller/rpc/loop_writer.h"
#include "controller/rpc/worker_sessions.h"

namespace paceline {

class JobService::LogStream : public LoopWriter<v1::LogChunk> {
 public:
  // The stream is in `set` as long as it is open. `workers` and `set` outlive it.
  LogStream(EventLoop* loop, WorkerSessions* workers, std::set<LogStream*>* set)
      : LoopWriter(loop), workers_(workers), set_(set) {}

  // Ends a stream that has not begun.
  void Fail(grpc::Status status) { Close(std::move(status)); }

  void Begin(NodeName node, const v1::TrainerId& trainer, const v1::StreamLogsRequest& wanted) {
    set_->insert(this);
    node_ = std::move(node);
    *request_.mutable_trainer() = trainer;
    request_.set_offset(wanted.offset());
    request_.set_tail_lines(wanted.tail_lines());
    request_.set_follow(wanted.follow());
    request_.set_since_s(wanted.since_s());
    Ask();
  }

 private:
  void Ask() {
    const grpc::Status status = workers_->RequestLog(
        node_, request_,
        [this](const grpc::Status& status, const v1::LogData& data) {
          pending_ = 0;
          status.ok() ? Take(data) : Close(status);
        },
        &pending_);
    if (!status.ok()) {
      pending_ = 0;
      Close(status);
    }
  }

  void Take(const v1::LogData& data) {
    if (!data.error().empty()) {
      return Close(MakeError(grpc::StatusCode::NOT_FOUND, "LOG_NOT_FOUND", data.error()));
    }
    end_ = data.end();
    // From here on by offset.
    request_.clear_tail_lines();
    request_.clear_since_s();
    request_.set_offset(data.offset() + static_cast<int64_t>(data.data().size()));
    if (data.data().empty()) return Next();
    if (!idle()) return;  // The reader has gone.
    v1::LogChunk chunk;
    chunk.set_offset(data.offset());
    chunk.set_data(data.data());
    Send(std::move(chunk));
  }

  void Next() { end_ ? Close(grpc::Status::OK) : Ask(); }

  void Ready() override { Next(); }

  void Gone() override {
    if (pending_ != 0) workers_->CancelLog(node_, pending_);
    set_->erase(this);
  }

  WorkerSessions* const workers_;
  std::set<LogStream*>* const set_;
  NodeName node_;
  v1::LogRequest request_;
  int64_t pending_ = 0;  // Number of the request under way, 0 if none.
  bool end_ = false;
};

}  // namespace paceline

#endif  // CONTROLLER_RPC_LOG_STREAM_H_
