#include "cli/rpc/watch.h"

#include <utility>

#include "cli/rpc/watch_changes.h"
#include "proto/job.pb.h"
#include "proto/node.pb.h"

namespace paceline {

grpc::Status WatchJobs(Client& client, const JobWatch& watch) {
  v1::WatchJobsRequest request;
  request.set_job_id(watch.job_id);
  return WatchChanges<v1::JobEvent>(
      client, request, watch,
      [&](const v1::WatchJobsRequest& from, const std::function<bool(const v1::JobEvent&)>& each) {
        return client.Stream(methods::kJobWatch, from, each, {/*endless=*/true, watch.deadline});
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

grpc::Status WatchNodes(Client& client, const ChangeWatch<v1::NodeEvent>& watch) {
  return WatchChanges<v1::NodeEvent>(
      client, v1::WatchNodesRequest(), watch,
      [&](const v1::WatchNodesRequest& from,
          const std::function<bool(const v1::NodeEvent&)>& each) {
        return client.Stream(methods::kNodeWatch, from, each, {/*endless=*/true, watch.deadline});
      },
      [](const v1::NodeEvent& event) {
        return std::make_pair(event.node().name(), event.node().revision());
      },
      [](const std::string& name) {
        v1::NodeEvent event;
        event.set_type(v1::DELETED);
        event.mutable_node()->set_name(name);
        return event;
      });
}

}  // namespace paceline
