// Page sizes and tokens of List calls, and which jobs a page shows: the newest, as many as asked
// for, but with at most kMaxRanksOfPage ranks together, since an answer is one message.
#ifndef CONTROLLER_API_SERVICES_PAGING_H_
#define CONTROLLER_API_SERVICES_PAGING_H_

#include <grpcpp/support/status.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/core/ids.h"
#include "controller/core/job/job.h"

namespace paceline {

inline constexpr int kDefaultPageSize = 50;
inline constexpr int kMaxPageSize = 1000;

// Sets the number of entries to return. INVALID_ARGUMENT, reason PAGE_SIZE_INVALID, if negative.
grpc::Status CheckPageSize(int asked, int* size);

// INVALID_ARGUMENT, reason PAGE_TOKEN_INVALID.
grpc::Status BadPageToken(const std::string& token);

// Makes a message of some 3 MB. A job has at most 4,096 ranks.
inline constexpr int64_t kMaxRanksOfPage = 20'000;

struct JobPage {
  std::vector<JobId> jobs;
  // Number of the page's last job, where the next page continues; 0: this is the last page.
  int64_t next_before = 0;
};

// Returns a page of wanted jobs: at least one, if any. Requires: `size` is positive.
JobPage PageOf(const std::map<JobId, Job>& all, const std::function<bool(const Job&)>& wanted,
               int size);

}  // namespace paceline

#endif  // CONTROLLER_API_SERVICES_PAGING_H_
