// Asks a rank of a watched command which collectives it has entered
// (python/paceline/_collectives.py), and waits for the answer.
//
// Runs on the loop.
#ifndef WORKER_DAEMON_TRAINERS_ASKED_COLLECTIVES_H_
#define WORKER_DAEMON_TRAINERS_ASKED_COLLECTIVES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "proto/status.pb.h"

namespace paceline {

// Parses what a process of the job wrote. An error says what is wrong with it.
absl::StatusOr<v1::RankCollectives> ParseCollectives(absl::string_view json);

class AskedCollectives {
 public:
  static constexpr size_t kMostBytes = 128 << 10;
  // How long to wait for an answer: an interpreter may be busy for a moment.
  static constexpr absl::Duration kPatience = absl::Seconds(3);

  // `own_dir`: the rank's own directory, which may contain anything.
  explicit AskedCollectives(std::string own_dir) : own_dir_(std::move(own_dir)) {}

  // Asks, and looks for an answer; call it repeatedly while the rank runs. `wanted`: the plan's
  // number, 0 when no longer wanted. `rank`: what torch should number it. True: reported() has
  // changed.
  bool Poll(int64_t wanted, int rank, absl::Time now);

  // Whether an answer is outstanding.
  bool waits() const { return waits_; }

  // Call when the rank has ended: takes the answer it left, if any.
  void TakeLeft(int rank);

  // The newest answer, or the reason why there is none.
  const std::optional<v1::RankCollectives>& reported() const { return reported_; }

 private:
  // True once the question was sent, or reported_ says why it cannot be.
  bool Ask();
  // NotFound when there is no answer.
  absl::StatusOr<v1::RankCollectives> ReadAnswer(int rank) const;
  void Refuse(absl::string_view why);

  const std::string own_dir_;
  int64_t wanted_ = 0;
  bool waits_ = false;
  bool asked_ = false;
  absl::Time deadline_;
  std::optional<v1::RankCollectives> reported_;
};

}  // namespace paceline

#endif  // WORKER_DAEMON_TRAINERS_ASKED_COLLECTIVES_H_
