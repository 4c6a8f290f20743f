# The handle socket and the sessions behind it.
set(TENURE_HANDLE_SOURCES
  handle_connection.cc
  handle_connection_fetch.cc
  handle_inbox.cc
  handle_outbound.cc
  handle_packet.cc
  handle_peer.cc
  handle_server.cc
  session_registry.cc
  socket_listener.cc)
