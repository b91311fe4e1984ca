// The thread that keeps the connection to the daemon (see control.h).
#ifndef WORKER_TRAINER_GENERATION_CONTROL_THREAD_H_
#define WORKER_TRAINER_GENERATION_CONTROL_THREAD_H_

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "absl/time/time.h"
#include "common/core/backoff.h"
#include "worker/link/frame.h"
#include "worker/trainer/generation/control.h"
#include "worker/trainer/generation/control_state.h"
#include "worker/trainer/generation/stop_signal.h"
#include "worker/trainer/report/log_file.h"

namespace paceline {

// Thread-safe.
class ControlThread {
 public:
  // `state` must outlive this. `log`: a guest has none. `on_stop` is called on the thread when a
  // SIGTERM came and ends the training.
  ControlThread(const Control::Options& options, ControlState& state, std::optional<LogFile> log,
                std::unique_ptr<StopSignal> signal, std::function<void()> on_stop);
  ~ControlThread();

  // Sends unsent status, within the time limit for last words, ends the thread, and restores the
  // signal. In a forked child there is no such thread, and nothing happens.
  void Stop();

 private:
  void Run();
  void Poll(absl::Duration limit);
  void Connect();
  void Disconnect();
  void Receive();
  void SendStatus();
  void TakeSignal();
  // Handles a signal that came during training.
  void EndIfAsked();
  void TurnOverLog();
  void LeaveIfOrphaned();
  bool MayLeave();
  [[noreturn]] void EndProcess(int code);

  const Control::Options options_;
  ControlState& state_;
  const std::unique_ptr<StopSignal> signal_;
  const std::function<void()> on_stop_;
  std::atomic<bool> stopping_{false};

  // Used by the thread only.
  bool asked_to_end_ = false;
  std::optional<LogFile> log_;
  bool log_failed_ = false;
  Backoff backoff_;
  int socket_ = -1;
  FrameDecoder decoder_;
  bool was_connected_ = false;
  absl::Time next_dial_ = absl::InfinitePast();
  absl::Time alone_since_;
  absl::Time leave_at_ = absl::InfiniteFuture();

  std::thread thread_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_GENERATION_CONTROL_THREAD_H_
