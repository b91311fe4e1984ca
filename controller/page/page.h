// The page for people at the controller's HTTP port: its contents, and its events, which are made
// once a second while somebody has it open.
//
//   GET /            ──▶ Html()
//   GET /curves?job= ──▶ Curves(), copied on the loop
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
  // `loop` and `control` outlive this; this outlives all streams.
  Page(EventLoop* loop, const ControlLoop* control) : loop_(loop), control_(control) {}

  // The whole page in one: styles and code are inlined. Thread-safe.
  static HttpResponse Html();

  // The curves of the job that `query` names by its id, as JSON (page_curves.h). Waits some seconds
  // for the loop. Thread-safe.
  HttpResponse Curves(const HttpServer::Query& query);

  // Opens a stream of events; `query` may name the id of a job to follow. Thread-safe.
  std::unique_ptr<HttpStream> Listen(const HttpServer::Query& query);

 private:
  // On the loop.
  void Wake();
  void Publish();

  EventLoop* const loop_;
  const ControlLoop* const control_;
  PageFeed feed_;
  std::atomic<bool> waking_{false};  // Wake has been posted.

  // On the loop.
  bool armed_ = false;  // The timer is armed.
  absl::Time published_ = absl::InfinitePast();
};

}  // namespace paceline

#endif  // CONTROLLER_PAGE_PAGE_H_
