// One reader's stream of one rank's log: asks the node of the trainer that has the rank for part
// after part, the next only when the reader has taken the last, so nothing piles up here.
//
//             ╭── a part was sent ──╮       nothing follows
//   Begin ──▶ Ask ─────────────────▶╯ ──────────────────────▶ GoOn ──▶ the stream ends, or
//              ▲                                               │ │
//              │    another trainer has the rank               │ │ nobody has it yet
//              ╰───────────────────────────────────────────────╯ ╰──────────────▶ waits ──Wake──▶
//
// While the node is not heard of there is no log to be had: the stream ends with NODE_UNREACHABLE,
// also when it was asked for before.
//
// A trainer that has lost its place is read to the present end of its log. Whose log is whose:
// controller/core/job/trainer_finder.h.
//
// Runs on the loop.
#ifndef CONTROLLER_API_SERVICES_LOG_STREAM_H_
#define CONTROLLER_API_SERVICES_LOG_STREAM_H_

#include <cstdint>
#include <memory>
#include <set>
#include <utility>

#include "controller/api/services/job_service.h"
#include "controller/api/services/loop_writer.h"
#include "controller/api/services/worker_sessions.h"
#include "controller/core/job/trainer_finder.h"
#include "controller/loop/control_loop.h"

namespace paceline {

class JobService::LogStream : public LoopWriter<v1::LogChunk> {
 public:
  // The stream is in `set` as long as it is open. All pointers outlive it.
  LogStream(EventLoop* loop, Sender* sender, std::unique_ptr<CallLimits::Stream> counted,
            const ControlLoop* control, WorkerSessions* workers, std::set<LogStream*>* set)
      : LoopWriter(loop, sender, std::move(counted)),
        control_(control),
        workers_(workers),
        set_(set) {}

  // Ends a stream that has not begun.
  void Fail(grpc::Status status) { Close(std::move(status)); }

  // Requires: CheckLogRequest (job_service.cc) has no objection.
  void Begin(const Job& job, const v1::StreamLogsRequest& wanted);

  // A job or a node has changed.
  void Wake();

 private:
  // Null: it is deleted.
  const Job* FindJob() const;
  // As trainer_finder.h.
  const RankState* Writer() const;
  bool MayWrite() const;
  bool IsHeardOf() const;  // Its node.

  void Read(const RankState& trainer);
  void Ask();
  void Cancel();
  void Take(const v1::LogData& data);
  void Next();
  // The log of the trainer has nothing more, now or for ever.
  void GoOn();
  // The log of the trainer cannot be had.
  void GiveUp(const grpc::Status& status);

  void Ready() override { Next(); }
  void Gone() override;

  const ControlLoop* const control_;
  WorkerSessions* const workers_;
  std::set<LogStream*>* const set_;

  // Constant once it has begun.
  JobId job_;
  bool follow_ = false;
  bool goes_on_ = false;     // With the next trainer, when one has ended.
  bool may_switch_ = false;  // The reader can tell trainers apart.

  LogReader reader_;
  NodeName node_;  // Of its trainer.
  v1::LogRequest request_;
  std::shared_ptr<int64_t> asked_;  // Number of the request under way; null: there is none.
  bool end_ = false;                // Nothing follows what was sent last.
  bool over_ = false;               // And nothing ever will: the trainer has ended.
  bool waits_ = false;              // For a trainer.
  grpc::Status outcome_;            // Why the trainer's log could not be had; OK: it could.
};

}  // namespace paceline

#endif  // CONTROLLER_API_SERVICES_LOG_STREAM_H_
