// Implements the gapless watches of watch.h.
#ifndef CLI_RPC_WATCH_CHANGES_H_
#define CLI_RPC_WATCH_CHANGES_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "cli/rpc/client.h"
#include "cli/rpc/resumption.h"
#include "cli/rpc/watch.h"
#include "grpcpp/support/status.h"
#include "proto/job.pb.h"

namespace paceline {

// `open(request, each)` opens a stream; `seen(event)` returns the id of the event's object and its
// revision; `gone(id)` makes the DELETED event of an object. Returns the status that watch.h
// describes.
template <typename Event, typename Request, typename Open, typename Seen, typename Gone>
grpc::Status WatchChanges(Client& client, Request request, const ChangeWatch<Event>& watch,
                          const Open& open, const Seen& seen, const Gone& gone) {
  std::map<std::string, int64_t> revisions;
  // Whether the stream is listing present objects: until the first BOOKMARK of one that begins at
  // 0.
  bool lists = false;
  std::set<std::string> present;  // Objects listed so far.
  // Objects that were not listed were deleted while nobody watched.
  const auto tell_gone = [&] {
    for (auto known = revisions.begin(); known != revisions.end();) {
      if (present.count(known->first) > 0) {
        ++known;
        continue;
      }
      const Event deleted = gone(known->first);
      known = revisions.erase(known);
      if (!watch.each(deleted)) return false;
    }
    lists = false;
    return true;
  };
  Resumption resumption(client, watch.deadline, watch.on_outage);
  request.set_after_revision(watch.after_revision);
  // The list came from a controller that was there.
  if (watch.after_revision > 0) resumption.Arrived();
  grpc::Status status;
  do {
    present.clear();
    lists = request.after_revision() == 0;
    status = open(request, [&](const Event& event) {
      resumption.Arrived();
      // A list that breaks off starts over, whatever changes came along with it.
      if (!lists || event.type() == v1::BOOKMARK) {
        request.set_after_revision(std::max(request.after_revision(), event.revision()));
      }
      if (event.type() == v1::BOOKMARK) return !lists || tell_gone();
      const auto [id, revision] = seen(event);
      if (event.type() == v1::DELETED) {
        revisions.erase(id);
        return watch.each(event);
      }
      if (lists) present.insert(id);
      int64_t& known = revisions.emplace(id, -1).first->second;
      if (revision <= known) return true;
      known = revision;
      return watch.each(event);
    });
    // The changes since then are no longer kept: start again with the present state.
    if (status.error_code() == grpc::StatusCode::OUT_OF_RANGE) {
      request.set_after_revision(0);
      if (watch.on_gap) watch.on_gap();
    }
  } while (resumption.Again(&status));
  return status;
}

}  // namespace paceline

#endif  // CLI_RPC_WATCH_CHANGES_H_
