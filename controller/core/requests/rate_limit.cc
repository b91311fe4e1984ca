#include "controller/core/requests/rate_limit.h"

#include <algorithm>

namespace paceline {

double RateLimit::TokensAt(const Bucket& bucket, absl::Time now) const {
  const double gained = options_.per_second * absl::ToDoubleSeconds(now - bucket.at);
  return std::min(options_.burst, bucket.tokens + gained);
}

void RateLimit::ForgetQuiet(absl::Time now) {
  for (auto bucket = buckets_.begin(); bucket != buckets_.end();) {
    const auto here = bucket++;
    if (TokensAt(here->second, now) >= options_.burst) buckets_.erase(here);
  }
}

absl::Duration RateLimit::Take(const std::string& caller, absl::Time now) {
  if (options_.per_second <= 0) return absl::ZeroDuration();
  const absl::Duration token = absl::Seconds(1 / options_.per_second);
  auto known = buckets_.find(caller);
  if (known == buckets_.end()) {
    if (buckets_.size() >= options_.max_callers) ForgetQuiet(now);
    if (buckets_.size() >= options_.max_callers) return token;
    known = buckets_.try_emplace(caller, Bucket{options_.burst, now}).first;
  }
  Bucket& bucket = known->second;
  bucket = {TokensAt(bucket, now), now};
  if (bucket.tokens < 1) return (1 - bucket.tokens) * token;
  bucket.tokens -= 1;
  return absl::ZeroDuration();
}

void RateLimit::Charge(const std::string& caller, double tokens, absl::Time now) {
  const auto known = buckets_.find(caller);
  if (known == buckets_.end()) return;
  Bucket& bucket = known->second;
  bucket = {std::max(TokensAt(bucket, now) - tokens, -options_.burst), now};
}

}  // namespace paceline
