#include "cli/rpc/job_watch.h"

#include <functional>
#include <string>
#include <utility>

namespace paceline {

grpc::Status WatchJobs(Client& client, const JobWatch& watch) {
  v1::WatchJobsRequest request;
  request.set_job_id(watch.job_id);
  return WatchChanges<v1::JobEvent>(
      client, request, watch,
      [&](const v1::WatchJobsRequest& from, const std::function<bool(const v1::JobEvent&)>& each) {
        return client.WatchJobs(from, each, watch.deadline);
      },
      [](const v1::JobEvent& event) {
        return std::make_pair(event.job().id(), event.job().revision());
      },
      [](const std::string& id) {
        v1::JobEvent event;
        event.set_type(v1::DELETED);
        event.mutable_job()->set_id(id);
        return event;
      });
}

}  // namespace paceline
