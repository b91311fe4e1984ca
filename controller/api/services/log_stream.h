// One reader's stream of one rank's log. It asks the node of the rank's trainer for part after
// part, and for the next only when the reader has taken the last, so that nothing piles up here.
//
//             ╭── a part was sent ──╮       nothing follows
//   Begin ──▶ Ask ─────────────────▶╯ ──────────────────────▶ GoOn ──▶ the stream ends, or
//              ▲                                               │ │
//              │    another trainer has the rank               │ │ nobody has it yet
//              ╰───────────────────────────────────────────────╯ ╰──────────────▶ waits ──Wake──▶
//
// While the node is not heard from there is no log: the stream ends with NODE_UNREACHABLE, even if
// a request is under way.
//
// The log of a trainer that has lost its rank is read to its present end.
// controller/core/job/trainer_finder.h says whose log is whose.
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
  // The stream is in `set` while it is open. All pointers outlive it.
  LogStream(EventLoop* loop, Sender* sender, std::unique_ptr<CallLimits::Stream> counted,
            const ControlLoop* control, WorkerSessions* workers, std::set<LogStream*>* set)
      : LoopWriter(loop, sender, std::move(counted)),
        control_(control),
        workers_(workers),
        set_(set) {}

  // Ends a stream before Begin.
  void Fail(grpc::Status status) { Close(std::move(status)); }

  // Requires: CheckLogRequest (job_service.cc) returned OK.
  void Begin(const Job& job, const v1::StreamLogsRequest& wanted);

  // Called when a job or a node has changed.
  void Wake();

 private:
  // Null: the job is deleted.
  const Job* FindJob() const;
  // See trainer_finder.h.
  const RankState* Writer() const;
  bool MayWrite() const;
  bool IsHeardOf() const;  // Whether its node is.

  void Read(const RankState& trainer);
  void Ask();
  void Cancel();
  void Take(const v1::LogData& data);
  void Next();
  // The trainer's log has nothing more, for now or for good.
  void GoOn();
  // The trainer's log cannot be had.
  void GiveUp(const grpc::Status& status);

  void Ready() override { Next(); }
  void Gone() override;

  const ControlLoop* const control_;
  WorkerSessions* const workers_;
  std::set<LogStream*>* const set_;

  // Constant after Begin.
  JobId job_;
  bool follow_ = false;
  bool goes_on_ = false;     // Continue with the next trainer when one has ended.
  bool may_switch_ = false;  // The reader can tell trainers apart.

  LogReader reader_;
  NodeName node_;  // Node of the trainer.
  v1::LogRequest request_;
  std::shared_ptr<int64_t> asked_;  // Number of the request under way; null: none.
  bool end_ = false;                // Nothing followed what was sent last.
  bool over_ = false;               // Nothing ever will: the trainer has ended.
  bool waits_ = false;              // Waits for a trainer.
  grpc::Status outcome_;            // Why the trainer's log could not be had; OK: it could.
};

}  // namespace paceline

#endif  // CONTROLLER_API_SERVICES_LOG_STREAM_H_
