// Limits how often each caller may do something, with a token bucket for each.
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
    double burst = 1;       // Tokens after a quiet time; at least 1.
    // How many callers are remembered at once: those that do not have all their tokens. If there
    // are more, new callers have to wait.
    size_t max_callers = 4096;
  };

  explicit RateLimit(const Options& options) : options_(options) {}

  // Takes one of the caller's tokens and returns zero; if there is none, returns how long until the
  // next one. A `now` before an earlier one, as threads may pass it, gives no token twice.
  absl::Duration Take(const std::string& caller, absl::Time now);

  // Takes more tokens from a caller that has taken one, even if it does not have them: it may come
  // to owe a whole burst. Nothing happens if the caller has taken none.
  void Charge(const std::string& caller, double tokens, absl::Time now);

  size_t callers() const { return buckets_.size(); }

 private:
  struct Bucket {
    double tokens = 0;
    absl::Time at;  // When it had these tokens.
  };

  double TokensAt(const Bucket& bucket, absl::Time now) const;
  // Forgets callers that have all their tokens: they are like new ones.
  void ForgetQuiet(absl::Time now);

  const Options options_;
  std::map<std::string, Bucket> buckets_;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_REQUESTS_RATE_LIMIT_H_
