// How often each caller may do something: a token bucket each.
//
// Pure: time is an argument. Thread-compatible.
#ifndef CONTROLLER_CORE_REQUESTS_RATE_LIMIT_H_
#define CONTROLLER_CORE_REQUESTS_RATE_LIMIT_H_

#include <cstddef>
#include <map>
#include <string>

#include "absl/time/time.h"

namespace paceline {

class RateLimit {
 public:
  struct Options {
    double per_second = 0;  // Tokens that come back. 0: no limit.
    double burst = 1;       // Tokens of one who has been quiet; at least 1.
    // Callers that are remembered at once: those that have not all their tokens. When there are
    // more, new ones wait.
    size_t max_callers = 4096;
  };

  explicit RateLimit(const Options& options) : options_(options) {}

  // Takes a token of the caller's at `now`: zero. Or there is none: how long until the next one. A
  // `now` that is before an earlier one, as threads may come, gives no token twice.
  absl::Duration Take(const std::string& caller, absl::Time now);

  // Takes so many more tokens of a caller that has taken one, whether it has them or not: it may
  // come to owe a burst. Of one that has taken none, nothing.
  void Charge(const std::string& caller, double tokens, absl::Time now);

  size_t callers() const { return buckets_.size(); }

 private:
  struct Bucket {
    double tokens = 0;
    absl::Time at;  // When it had so many.
  };

  double TokensAt(const Bucket& bucket, absl::Time now) const;
  // Those that have all their tokens are as those that never came.
  void ForgetQuiet(absl::Time now);

  const Options options_;
  std::map<std::string, Bucket> buckets_;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_REQUESTS_RATE_LIMIT_H_
