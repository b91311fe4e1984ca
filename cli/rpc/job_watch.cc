#include "cli/rpc/job_watch.h"

#include <algorithm>
#include <cstdint>
#include <map>

#include "cli/rpc/resumption.h"

namespace paceline {

grpc::Status WatchJobs(Client& client, const JobWatch& watch) {
  std::map<std::string, int64_t> seen;
  v1::WatchJobsRequest request;
  request.set_job_id(watch.job_id);
  Resumption resumption(client, watch.deadline, watch.on_outage);
  grpc::Status status;
  do {
    status = client.WatchJobs(
        request,
        [&](const v1::JobEvent& event) {
          resumption.Arrived();
          request.set_after_revision(std::max(request.after_revision(), event.revision()));
          if (event.type() == v1::BOOKMARK) return true;
          int64_t& revision = seen.emplace(event.job().id(), -1).first->second;
          if (event.type() != v1::DELETED && event.job().revision() <= revision) return true;
          revision = event.job().revision();
          return watch.each(event);
        },
        watch.deadline);
    // What lies between is no longer kept: begin again with the present state.
    if (status.error_code() == grpc::StatusCode::OUT_OF_RANGE) request.set_after_revision(0);
  } while (resumption.Again(&status));
  return status;
}

}  // namespace paceline
