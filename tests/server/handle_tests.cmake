tenure_test(tenure_handle_test
  SOURCES
    handle_connection_test.cc
    handle_death_test.cc
    handle_export_test.cc
    handle_outbound_test.cc
    handle_packet_test.cc
    handle_peer_test.cc
    handle_pool_test.cc
    handle_session_test.cc
    handle_share_test.cc
    handle_stress_test.cc
    handle_surviving_test.cc
    session_registry_test.cc
    socket_listener_test.cc
  LIBS tenure_server tenure_test_support spdlog::spdlog
  LABELS tsan)
