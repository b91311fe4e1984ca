// The page that the controller's HTTP port serves to people: what it consists of, and its events,
// made once a second while somebody looks.
//
//   GET /            ──▶ Html()
//   GET /events?job= ──▶ Listen() ──▶ PageFeed ◀── Publish, on the loop
#ifndef CONTROLLER_PAGE_PAGE_H_
#define CONTROLLER_PAGE_PAGE_H_

#include <atomic>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "common/event_loop.h"
#include "common/http_server.h"
#include "controller/loop/control_loop.h"
#include "controller/page/page_feed.h"

namespace paceline {

class Page {
 public:
  // Both outlive this, and this outlives all streams.
  Page(EventLoop* loop, const ControlLoop* control) : loop_(loop), control_(control) {}

  // Everything in one: styles and code are part of it. Thread-safe.
  static HttpResponse Html();

  // A stream of events; `query` may name the job to look at by its id. Thread-safe.
  std::unique_ptr<HttpStream> Listen(const HttpServer::Query& query);

 private:
  // On the loop.
  void Wake();
  void Publish();

  EventLoop* const loop_;
  const ControlLoop* const control_;
  PageFeed feed_;
  std::atomic<bool> waking_{false};  // Wake is posted.

  // On the loop.
  bool armed_ = false;  // The timer is.
  absl::Time published_ = absl::InfinitePast();
};

}  // namespace paceline

#endif  // CONTROLLER_PAGE_PAGE_H_
