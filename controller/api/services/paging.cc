#include "controller/api/services/paging.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "controller/wire/errors.h"

namespace paceline {

grpc::Status CheckPageSize(int asked, int* size) {
  if (asked < 0) {
    return MakeError(grpc::StatusCode::INVALID_ARGUMENT, "PAGE_SIZE_INVALID",
                     absl::StrCat("page_size is ", asked, "; allowed is 0 (for ", kDefaultPageSize,
                                  ") to ", kMaxPageSize));
  }
  *size = asked == 0 ? kDefaultPageSize : std::min(asked, kMaxPageSize);
  return grpc::Status::OK;
}

grpc::Status BadPageToken(const std::string& token) {
  return MakeError(grpc::StatusCode::INVALID_ARGUMENT, "PAGE_TOKEN_INVALID",
                   absl::StrCat("\"", token, "\" is not a next_page_token of this list"));
}

JobPage PageOf(const std::map<JobId, Job>& all, const std::function<bool(const Job&)>& wanted,
               int size) {
  std::vector<const Job*> jobs;
  for (const auto& [id, job] : all) {
    if (wanted(job)) jobs.push_back(&job);
  }
  const size_t most = std::min(jobs.size(), static_cast<size_t>(size));
  std::partial_sort(jobs.begin(), jobs.begin() + static_cast<std::ptrdiff_t>(most), jobs.end(),
                    [](const Job* a, const Job* b) { return a->number > b->number; });
  JobPage page;
  int64_t ranks = 0;
  for (size_t j = 0; j < most; ++j) {
    ranks += static_cast<int64_t>(jobs[j]->ranks.size());
    if (j > 0 && ranks > kMaxRanksOfPage) break;
    page.jobs.push_back(jobs[j]->request.id);
  }
  if (page.jobs.size() < jobs.size()) page.next_before = jobs[page.jobs.size() - 1]->number;
  return page;
}

}  // namespace paceline
