// Why a job waits, or is not whole.
#include <string>
#include <utility>

#include "controller/rpc/caller.h"
#include "controller/rpc/job_service.h"

namespace paceline {

grpc::ServerUnaryReactor* JobService::Why(grpc::CallbackServerContext* context,
                                          const v1::WhyRequest* request, v1::WhyResponse* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  loop_->Post([=, caller = CallerOf(*context)] {
    const Job* job = nullptr;
    const grpc::Status found = Find(caller, request->job(), &job);
    if (found.ok()) {
      for (std::string& obstacle : control_->cluster().Why(*job)) {
        reply->add_obstacles(std::move(obstacle));
      }
    }
    reactor->Finish(found);
  });
  return reactor;
}

}  // namespace paceline
